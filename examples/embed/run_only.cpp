// Runs an engine without the compiler: run_only ENGINE.vn
#include <vernier/engine.h>
#include <vernier/error.h>
#include <vernier/session.h>
#include <vernier/synthetic.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: run_only ENGINE.vn\n");
    return 2;
  }
  try {
    const auto engine = vernier::Engine::open(argv[1]);
    vernier::Session session(engine, {.threads = 2});
    const auto arrays = vernier::synthetic_inputs(*engine, "");
    std::vector<vernier::Input> inputs;
    for (const auto& array : arrays) inputs.push_back(array.ref());
    for (const vernier::Output& output : session.run(inputs))
      std::printf("output %.*s: %zu bytes\n", static_cast<int>(output.name.size()),
                  output.name.data(), output.bytes);
    return 0;
  } catch (const vernier::Error& error) {
    std::fprintf(stderr, "run_only: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
