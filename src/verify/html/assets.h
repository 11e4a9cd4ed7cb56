// The styles and the script of the HTML report: src/verify/html/report.css, cards.css and
// report.js, as the build put them into the program (cmake/embed.cmake).
#pragma once
#include <string_view>

namespace vernier::verify {

std::string_view report_style();
std::string_view card_style();
std::string_view report_script();

}  // namespace vernier::verify
