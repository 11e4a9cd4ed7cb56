// The report of verify as one HTML file: no other file, font, script or address is needed to read
// it. The same engine, model and options give the same bytes (but for step times, which are asked
// for separately). What the sections say: docs/verification.md "The HTML report".
#pragma once
#include <filesystem>
#include <string>

#include "plan/plan.h"
#include "verify/verify.h"

namespace vernier::verify {

/// What the page shows. References must outlive it.
struct ReportPage {
  const Report& report;
  const plan::Plan& plan;
  std::string engine_file, model_file;  ///< names without folders
  std::string model_hash;               ///< of the model's file; may be empty
};
std::string to_html(const ReportPage& page);

/// Throws what writing `path` would throw (core/whole_file.h); leaves no file behind. Asked before
/// work of minutes whose result goes there. `what`: for messages, "report".
void check_can_write(const std::filesystem::path& path, const std::string& what);
/// Writes a text file whole or not at all.
void write_text_file(const std::filesystem::path& path, const std::string& what,
                     const std::string& text);

}  // namespace vernier::verify
