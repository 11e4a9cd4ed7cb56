// The report of verify as one HTML file: no other file, font, script or address is needed to read
// it. The same engine, model and options give the same bytes (but for step times, which are asked
// for separately). What the sections say: docs/verification.md "The HTML report".
#pragma once
#include <string>

#include "plan/plan.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// What the page shows. References must outlive it.
struct ReportPage {
  const Report& report;
  const plan::Plan& plan;
  std::string engine_file, model_file;  ///< names without folders
  std::string model_hash;               ///< of the model's file; may be empty
};
std::string to_html(const ReportPage& page);

}  // namespace vernier::verify
