# vernier_verify, with the style and the script of its HTML report, and the program that asks ONNX
# Runtime, put into the program.
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
# The program of --also onnxruntime.
set(also_script ${PROJECT_BINARY_DIR}/generated/verify/also/script.cpp)
set(also_source ${PROJECT_SOURCE_DIR}/src/verify/also/onnxruntime.py)
add_custom_command(
  OUTPUT ${also_script}
  COMMAND ${CMAKE_COMMAND} -DOUT=${also_script} -DHEADER=verify/also/script.h
          -DNAMESPACE=vernier::verify -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
          onnxruntime_script=${also_source}
  DEPENDS ${also_source} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "Embedding the program of --also onnxruntime" VERBATIM)
target_sources(vernier_verify PRIVATE ${also_script})
