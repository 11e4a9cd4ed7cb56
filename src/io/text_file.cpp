// Text files: see text_file.h.
#include "io/text_file.h"

#include <span>

#include "core/whole_file.h"

namespace vernier::io {

void check_can_write(const std::filesystem::path& path, const std::string& what) {
  vernier::check_can_write(path, what);
}

void write_text_file(const std::filesystem::path& path, const std::string& what,
                     const std::string& text) {
  WholeFile file({.path = path, .what = what, .bytes_expected = text.size()});
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace vernier::io
