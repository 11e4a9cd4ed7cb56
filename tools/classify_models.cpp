// Prints which models below a folder build and why the others are refused, as
// tests/models/peers.tsv has it. Run: build/release/classify_models FOLDER > tests/models/peers.tsv
// With --verify each engine is also held against its model, and its verdict printed (much longer).
#include <cstdio>
#include <exception>
#include <string_view>

#include "verify/model_classes.h"

int main(int argc, char** argv) {
  const bool verify = argc == 3 && std::string_view(argv[2]) == "--verify";
  if (argc != 2 && !verify) {
    std::fputs("usage: classify_models FOLDER [--verify]\n", stderr);
    return 2;
  }
  try {
    std::fputs(vernier::test::to_tsv(
                   vernier::test::classify_models(argv[1], verify ? vernier::test::Verdicts::kYes
                                                                  : vernier::test::Verdicts::kNo))
                   .c_str(),
               stdout);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "classify_models: %s\n", error.what());
    return 1;
  }
  return 0;
}
