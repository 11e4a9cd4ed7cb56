// Compiles a model, verifies the engine, runs it: embed MODEL.onnx ENGINE.vn
#include <vernier/compile.h>
#include <vernier/engine.h>
#include <vernier/error.h>
#include <vernier/session.h>
#include <vernier/synthetic.h>
#include <vernier/verify.h>

#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: embed MODEL.onnx ENGINE.vn\n");
    return 2;
  }
  try {
    vernier::CompileOptions options;
    options.mode = "bf16";
    const vernier::CompileReport built = vernier::compile(argv[1], argv[2], options);
    std::printf("%s: %lld nodes, %lld steps\n", argv[2], static_cast<long long>(built.onnx_nodes),
                static_cast<long long>(built.steps));

    vernier::verify::Request request;
    request.model = argv[1];
    request.engine = argv[2];
    request.batches = {1, 2};
    const vernier::verify::Report report = vernier::verify::verify(request);
    std::printf("verdict: %s\n", std::string(name(report.verdict)).c_str());

    const auto engine = vernier::Engine::open(argv[2]);
    vernier::Session session(engine);
    std::vector<vernier::Input> inputs;
    const auto arrays = vernier::synthetic_inputs(*engine, "");
    for (const auto& array : arrays) inputs.push_back(array.ref());
    for (const vernier::Output& output : session.run(inputs))
      std::printf("output %.*s: %zu bytes\n", static_cast<int>(output.name.size()),
                  output.name.data(), output.bytes);
    return report.passed() ? 0 : 1;
  } catch (const vernier::Error& error) {
    std::fprintf(stderr, "embed: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
