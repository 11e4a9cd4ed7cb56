// Text files, written whole or not at all.
#pragma once
#include <filesystem>
#include <string>

namespace vernier::io {

/// Throws what writing `path` would throw (core/whole_file.h); leaves no file behind. Called before
/// work of minutes whose result goes there. `what`: for messages, "report".
void check_can_write(const std::filesystem::path& path, const std::string& what);
/// Writes a text file whole or not at all. Throws Error(kMachine) as core/whole_file.h does.
void write_text_file(const std::filesystem::path& path, const std::string& what,
                     const std::string& text);

}  // namespace vernier::io
