// The sections of the HTML report, each a function of what verify found. Internal to the report;
// the order is in report.cpp. A section without data is one line that says what would fill it.
#pragma once
#include <string>

#include "verify/html/report.h"

namespace vernier::verify::html {

// what was found (found.cpp)
std::string verdict(const ReportPage& page);
std::string facts(const ReportPage& page);
std::string cells(const ReportPage& page);
std::string outputs(const ReportPage& page);
std::string checks(const ReportPage& page);
std::string notes(const ReportPage& page);

// step by step (steps.cpp)
std::string precision(const ReportPage& page);
std::string ranges(const ReportPage& page);
std::string times(const ReportPage& page);
std::string replay(const ReportPage& page);
std::string rewrites(const ReportPage& page);

/// "compute f32, store f16 (rule 2)": what was asked of a node; empty: nothing.
std::string asked_text(const ::vernier::Request& asked);

std::string growth(const ReportPage& page);  ///< growth.cpp
std::string ledger(const ReportPage& page);  ///< ledger.cpp

}  // namespace vernier::verify::html
