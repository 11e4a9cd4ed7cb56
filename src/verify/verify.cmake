# vernier_verify, with the style and the script of its HTML report put into the program.
vernier_library(vernier_verify verify)
target_link_libraries(vernier_verify PUBLIC vernier_compiler vernier_io)
set(html_assets ${PROJECT_BINARY_DIR}/generated/verify/html/assets.cpp)
set(html_folder ${PROJECT_SOURCE_DIR}/src/verify/html)
add_custom_command(
  OUTPUT ${html_assets}
  COMMAND ${CMAKE_COMMAND} -DOUT=${html_assets} -DHEADER=verify/html/assets.h
          -DNAMESPACE=vernier::verify -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
          report_style=${html_folder}/report.css card_style=${html_folder}/cards.css
          report_script=${html_folder}/report.js
  DEPENDS ${html_folder}/report.css ${html_folder}/cards.css ${html_folder}/report.js
          ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "Embedding the HTML report's style and script" VERBATIM)
target_sources(vernier_verify PRIVATE ${html_assets})
