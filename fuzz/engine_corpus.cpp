// Writes the seeds of the engine fuzz target: engine_corpus FOLDER (fuzz/corpus/engine). Run it
// after a change of the format; tests/engine/corpus_test.cpp fails until then.
#include <cstdio>
#include <exception>
#include <fstream>

#include "engine/seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: engine_corpus FOLDER\n");
    return 2;
  }
  try {
    for (const auto& [name, bytes] : vernier::engine::fuzz_seeds()) {
      std::ofstream file(std::string(argv[1]) + "/" + name, std::ios::binary);
      file.exceptions(std::ios::failbit | std::ios::badbit);
      file.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_corpus: %s\n", error.what());
    return 3;
  }
}
