// The seeds of the fuzz target are of the current format, or fuzzing would test the header only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "seeds.h"

namespace vernier::engine {
namespace {

TEST(Corpus, HoldsFilesOfThisFormat) {
  for (const auto& [name, expected] : fuzz_seeds()) {
    std::ifstream file("fuzz/corpus/engine/" + name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(text)), expected))
        << name << ": write the corpus again: ninja engine_corpus && engine_corpus "
        << "fuzz/corpus/engine";
  }
}

}  // namespace
}  // namespace vernier::engine
