// Paths that are not regular files, places that cannot be written, full disks and memory: a message
// that names them, the exit code of docs/commands.md, and existing files stay as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>

#include "cli/engine_fixture.h"
#include "onnx/model_builder.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Hostile : public WithEngine {
 protected:
  static void SetUpTestSuite() {
    WithEngine::SetUpTestSuite();
    fs::create_directory(file("folder"));
    write_file(file("empty"), "");
    write_file(file("text"), "neither a model nor an engine nor arrays");
    ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);  // opening one would wait for a writer
  }
  // Nobody can go into the folders of mkdtemp without this.
  static void open_to_nobody() { fs::permissions(file(""), fs::perms(0755)); }
  static std::vector<std::string> names(const std::string& folder) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder))
      found.push_back(entry.path().filename());
    return found;
  }
};

void expect_refused(const std::vector<std::string>& arguments, int code,
                    const std::vector<std::string>& parts, const Conditions& conditions = {}) {
  const Outcome outcome = run_program(arguments, conditions);
  EXPECT_EQ(outcome.code, code) << testing::PrintToString(arguments) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  // Only progress, which work of over two seconds shows, may stand before it.
  EXPECT_THAT(outcome.err, testing::AnyOf(testing::StartsWith("vernier: error: "),
                                          HasSubstr("\nvernier: error: ")));
  for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
}

// ---- what is read

TEST_F(Hostile, WhateverIsNoEngineModelOrArrayIsNamed) {
  for (const char* name : {"none", "folder", "empty", "text", "pipe"}) {
    const std::string bad = file(name), out = file("out");
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"run", bad, "--inputs", inputs(), "-o", out},
             {"run", engine(), "--inputs", bad, "-o", out},
             {"build", bad, "-o", out},
             {"inspect", bad},
             {"bench", bad},
             {"verify", bad, "--model", kModel, "--inputs", inputs()},
             {"verify", engine(), "--model", bad, "--inputs", inputs()},
             {"verify", engine(), "--model", kModel, "--inputs", bad},
             {"verify", engine(), "--model", kModel, "--inputs", inputs(), "--expect", bad},
         }) {
      expect_refused(arguments, 2, {bad});
    }
    EXPECT_FALSE(fs::exists(file("out")));
  }
}

TEST_F(Hostile, ANewerAndAnOlderFormatSayWhatToDo) {
  std::string bytes = read_file(engine());
  ++bytes[8];
  write_file(file("newer.vn"), bytes);
  expect_refused({"inspect", file("newer.vn")}, 2,
                 {"engine '" + file("newer.vn") + "': it has format version ",
                  "this program reads ", "update Vernier or rebuild the engine with this one"});
  bytes[8] = 1;
  write_file(file("older.vn"), bytes);
  expect_refused({"run", file("older.vn"), "--inputs", inputs(), "-o", file("out")}, 2,
                 {"it has format version 1, this program reads ", "build it again from its model"});
}

TEST_F(Hostile, FilesThatMayNotBeReadAreTheMachines) {
  if (!can_run_without_root()) GTEST_SKIP();
  open_to_nobody();
  fs::copy_file(engine(), file("secret.vn"), fs::copy_options::overwrite_existing);
  fs::copy_file(kModel, file("secret.onnx"), fs::copy_options::overwrite_existing);
  fs::copy_file(inputs(), file("secret.npz"), fs::copy_options::overwrite_existing);
  for (const char* name : {"secret.vn", "secret.onnx", "secret.npz"})
    fs::permissions(file(name), fs::perms(0));
  const Conditions nobody{.user = Conditions::User::kNobody};
  expect_refused({"inspect", file("secret.vn")}, 3, {"secret.vn'", "Permission denied"}, nobody);
  expect_refused({"build", file("secret.onnx"), "-o", "/tmp/never.vn"}, 3,
                 {"secret.onnx'", "Permission denied"}, nobody);
  fs::permissions(engine(), fs::perms(0644));
  expect_refused({"run", engine(), "--inputs", file("secret.npz"), "-o", "/tmp/never.npz"}, 3,
                 {"secret.npz'", "Permission denied"}, nobody);
}

// ---- what is written

TEST_F(Hostile, OutputsGoToFilesOnly) {
  for (const auto& [place, why] : std::vector<std::pair<std::string, std::string>>{
           {file("folder"), "it is a folder; give the name of a file"},
           {file("pipe"), "it is not a regular file"},
           {"/dev/null", "it is not a regular file"},
           {"/dev/full", "it is not a regular file"},
           {"", "its name is empty"}}) {
    expect_refused({"build", kModel, "-o", place}, 2, {"cannot write engine", place, why});
    expect_refused({"run", engine(), "--inputs", inputs(), "-o", place}, 2,
                   {"cannot write arrays", place, why});
  }
  EXPECT_TRUE(fs::is_fifo(file("pipe")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(names(file("folder")).empty());
}

TEST_F(Hostile, PlacesWhereNobodyCanWriteAreTheMachines) {
  // Not even root makes a file in /proc.
  for (const std::string place : {"/proc/vernier", "/proc/self/vernier"}) {
    expect_refused(
        {"build", kModel, "-o", place}, 3,
        {"cannot write engine '" + place + "': ", "free space or choose another folder"});
    expect_refused({"run", engine(), "--inputs", inputs(), "-o", place}, 3,
                   {"cannot write arrays '" + place + "': "});
  }
}

TEST_F(Hostile, AReadOnlyFolderKeepsWhatItHas) {
  if (!can_run_without_root()) GTEST_SKIP();
  open_to_nobody();
  fs::permissions(engine(), fs::perms(0644));
  fs::permissions(inputs(), fs::perms(0644));
  fs::create_directory(file("fixed"));
  write_file(file("fixed/out"), "old");
  fs::permissions(file("fixed"), fs::perms(0555));
  const Conditions nobody{.user = Conditions::User::kNobody};
  expect_refused({"build", kModel, "-o", file("fixed/out")}, 3, {"Permission denied"}, nobody);
  expect_refused({"run", engine(), "--inputs", inputs(), "-o", file("fixed/out")}, 3,
                 {"cannot write arrays '" + file("fixed/out") + "': Permission denied"}, nobody);
  fs::permissions(file("fixed"), fs::perms(0755));
  EXPECT_EQ(read_file(file("fixed/out")), "old");
  EXPECT_EQ(names(file("fixed")).size(), 1u);
}

TEST_F(Hostile, AFullDiskLeavesTheOldFilesAndNothingElse) {
  const std::string hidden =
      "/m/roberta/encoder/layer.0/output/LayerNorm/LayerNormalization_output_0";
  ASSERT_EQ(run_program({"build", kModel, "-o", file("wide.vn"), "--outputs", hidden}).code, 0);
  fs::create_directory(file("full"));
  write_file(file("full/e.vn"), "old engine");
  write_file(file("full/o.npz"), "old arrays");
  // The engine has 2.3 MB, the arrays 98 kB.
  expect_refused({"build", kModel, "-o", file("full/e.vn")}, 3,
                 {"cannot write engine '" + file("full/e.vn") + "': File too large",
                  "bytes in a writable folder"},
                 {.largest_file_bytes = 1'000'000});
  expect_refused(
      {"run", file("wide.vn"), "--inputs", inputs(), "-o", file("full/o.npz")}, 3,
      {"cannot write arrays '" + file("full/o.npz") + "': ", "bytes in a writable folder"},
      {.largest_file_bytes = 50'000});
  EXPECT_EQ(read_file(file("full/e.vn")), "old engine");
  EXPECT_EQ(read_file(file("full/o.npz")), "old arrays");
  EXPECT_EQ(names(file("full")).size(), 2u);
}

TEST_F(Hostile, AStandardOutputThatIsFullIsTheMachines) {
  for (const char* view : {"--ledger", "--plan"}) {
    expect_refused({"inspect", engine(), view}, 3, {"standard output could not be written"},
                   {.standard_output = "/dev/full"});
  }
}

TEST_F(Hostile, TooLittleMemoryIsTheMachines) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIP: sanitizers need more address space than this test gives";
#endif
  ASSERT_EQ(
      run_program({"build", kModel, "-o", file("large.vn"), "--shapes", "batch=1..4000000"}).code,
      0);
  expect_refused({"inspect", file("large.vn"), "--memory", "--shapes", "batch=4000000,seq=128"}, 3,
                 {"takes more memory than there is; give smaller sizes"},
                 {.memory_bytes = uint64_t{4} << 30});
}

TEST_F(Hostile, NoCommandWritesOverWhatItReads) {
  fs::copy_file(kModel, file("mine.onnx"));
  fs::create_symlink(file("mine.onnx"), file("link.onnx"));
  const std::string model = read_file(kModel), arrays = read_file(inputs());
  for (const std::string& out : {file("mine.onnx"), file("link.onnx")}) {
    expect_refused(
        {"build", file("mine.onnx"), "-o", out}, 2,
        {"writing '" + out + "' would destroy '" + file("mine.onnx") + "'", "give another name"});
  }
  expect_refused({"run", engine(), "--inputs", inputs(), "-o", inputs()}, 2, {"would destroy"});
  expect_refused({"run", engine(), "--inputs", inputs(), "-o", engine()}, 2, {"would destroy"});
  EXPECT_EQ(read_file(file("mine.onnx")), model);
  EXPECT_EQ(read_file(inputs()), arrays);
  EXPECT_EQ(run_program({"inspect", engine(), "--check"}).code, 0);
}

// ---- models and arrays of bad values

onnx::ModelBuilder product_model(const std::vector<float>& weights) {
  onnx::ModelBuilder builder(17);
  builder.input("x", onnx::kFloat, {std::string("n"), int64_t{2}}).output("y");
  builder.initializer(onnx::f32_tensor("w", {2, 2}, weights));
  builder.node("MatMul", {"x", "w"}, {"y"});
  return builder;
}

TEST_F(Hostile, WeightsThatAreNotFiniteAreReportedAndBuilt) {
  write_file(file("nan.onnx"), product_model({1, NAN, INFINITY, 2}).bytes());
  const Outcome built = run_program({"build", file("nan.onnx"), "-o", file("nan.vn")});
  EXPECT_EQ(built.code, 0) << built.err;
  const std::string warning =
      "warning: weight 'w' f32[2, 2] holds 1 NaN, 1 +Inf among 4 values, the first at [0, 1]";
  EXPECT_THAT(built.out, HasSubstr(warning));
  EXPECT_THAT(run_program({"inspect", file("nan.vn")}).out, HasSubstr(warning));
  io::write_npz(file("x.npz"),
                {{"x", Tensor::from(DType::kF32, {1, 2}, std::vector<double>{1, 0})}});
  const Outcome outcome =
      run_program({"run", file("nan.vn"), "--inputs", file("x.npz"), "-o", file("y.npz")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::isnan(io::read_arrays(file("y.npz"))[0].second.float_at(1)));
}

// The range audit of a 16-bit build runs the model once.
TEST_F(Hostile, AFixedBatchIsAuditedWithAllItsRows) {
  onnx::ModelBuilder builder(17);
  builder.input("x", onnx::kFloat, {int64_t{500}, int64_t{64}}).output("y");
  builder.initializer(onnx::f32_tensor("w", {64, 64}, std::vector<float>(64 * 64, 3e4F)));
  builder.node("Relu", {"x"}, {"r"});
  builder.node("MatMul", {"r", "w"}, {"sums"});
  builder.node("Softmax", {"sums"}, {"y"});
  write_file(file("fixed.onnx"), builder.bytes());
  const Outcome built = run_program({"build", file("fixed.onnx"), "-o", file("a.vn"), "--fp16"});
  EXPECT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(built.out, HasSubstr("range audit: "));
  EXPECT_EQ(run_program({"build", file("fixed.onnx"), "-o", file("b.vn"), "--fp16"}).code, 0);
  EXPECT_EQ(read_file(file("a.vn")), read_file(file("b.vn")));
}

TEST_F(Hostile, AModelThatIsTooLargeToEvaluateIsBuiltWithoutTheAudit) {
  onnx::ModelBuilder builder(17);
  builder.input("x", onnx::kFloat, {int64_t{65536}, int64_t{65536}}).output("y");
  builder.node("MatMul", {"x", "x"}, {"y"});
  write_file(file("huge.onnx"), builder.bytes());
  const Outcome built = run_program({"build", file("huge.onnx"), "-o", file("huge.vn"), "--fp16"});
  EXPECT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(built.out, HasSubstr("warning: the range audit is left out: at its fixed sizes"));
}

TEST_F(Hostile, SizesOfZeroAreRefusedWithTheRange) {
  const std::string none = changed_inputs([](NamedTensors& arrays) {
    for (auto& [name, tensor] : arrays)
      tensor = Tensor::from(DType::kI64, {0, 48}, std::vector<int64_t>());
  });
  expect_refused({"run", engine(), "--inputs", none, "-o", file("out")}, 2,
                 {"input 'input_ids': got shape [0, 48]: 'batch' (dimension 0) is 0, outside 1..64",
                  "--shapes batch=MIN..MAX"});
  const std::string short_one = changed_inputs([](NamedTensors& arrays) {
    for (auto& [name, tensor] : arrays)
      tensor = Tensor::from(DType::kI64, {4, 0}, std::vector<int64_t>());
  });
  expect_refused({"run", engine(), "--inputs", short_one, "-o", file("out")}, 2,
                 {"'seq' (dimension 1) is 0, outside 1.."});
  for (const char* shapes : {"batch=0..4", "seq=0", "batch=1..99999999999999999999"}) {
    expect_refused({"build", kModel, "-o", file("out"), "--shapes", shapes}, 2,
                   {"--shapes: '" + std::string(shapes), "expected sizes from 1 to 2147483647"});
  }
}

TEST_F(Hostile, LengthsOutsideTheProfileAreRefusedWithTheRange) {
  ASSERT_EQ(run_program({"build", kModel, "-o", file("short.vn"), "--shapes", "seq=4..16"}).code,
            0);
  expect_refused({"run", file("short.vn"), "--inputs", inputs(), "-o", file("out")}, 2,
                 {"input 'input_ids': got shape [4, 48]: 'seq' (dimension 1) is 48, outside 4..16",
                  "--shapes seq=MIN..MAX to widen it"});
}

// An .npy file of 2 x 3 f32 (or what `header` says instead).
std::string npy(const std::string& header, const std::vector<float>& values) {
  std::string text("\x93NUMPY\x01\0", 8);
  text += static_cast<char>(header.size());
  text += '\0';
  text += header;
  text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return text;
}
std::string header(const std::string& type, const std::string& fortran, const std::string& shape) {
  return "{'descr': " + type + ", 'fortran_order': " + fortran + ", 'shape': " + shape + "}";
}

class HostileArrays : public Hostile {
 protected:
  static void SetUpTestSuite() {
    Hostile::SetUpTestSuite();
    onnx::ModelBuilder builder(17);
    builder.input("x", onnx::kFloat, {std::string("n"), int64_t{3}}).output("y");
    builder.node("Exp", {"x"}, {"y"});
    write_file(file("exp.onnx"), builder.bytes());
    ASSERT_EQ(run_program({"build", file("exp.onnx"), "-o", file("exp.vn")}).code, 0);
  }
  static std::vector<std::string> run_on(const std::string& bytes) {
    write_file(file("x.npy"), bytes);
    return {"run", file("exp.vn"), "--inputs", file("x.npy"), "-o", file("y.npz")};
  }
};

TEST_F(HostileArrays, FortranOrderIsTheSameArray) {
  const auto answer = [&](const std::string& bytes) {
    const Outcome outcome = run_program(run_on(bytes));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return io::read_arrays(file("y.npz"))[0].second;
  };
  const Tensor rows = answer(npy(header("'<f4'", "False", "(2, 3)"), {1, 2, 3, 4, 5, 6}));
  const Tensor columns = answer(npy(header("'<f4'", "True", "(2, 3)"), {1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(columns.shape(), (Shape{2, 3}));
  EXPECT_TRUE(std::ranges::equal(rows.byte_span(), columns.byte_span()));
}

TEST_F(HostileArrays, WhatIsNoPlainArrayIsRefused) {
  const std::vector<float> six(6, 1);
  const std::string good = header("'<f4'", "False", "(2, 3)");
  for (const auto& [bytes, why] : std::vector<std::pair<std::string, std::string>>{
           {npy(header("'|O'", "False", "(2, 3)"), six), "holds Python objects"},
           {npy(header("'>f4'", "False", "(2, 3)"), six), "is big-endian ('>f4')"},
           {npy(header("'<f4'", "False", "(4611686018427387904, 3)"), six), "impossible shape"},
           {npy(header("'<f4'", "False", "(1000000000, 3)"), six), "needs 12000000"},
           {npy(header("'<f4'", "False", "(-2, 3)"), six), "bad shape"},
           {npy(good, six).substr(0, 80), "truncated or damaged"},
           {npy(header("'<f8'", "False", "(1, 3)"), six), "input 'x': got f64"},
           {npy(header("'<f4'", "False", "(6,)"), six), "input 'x': got shape [6] with 1"},
       }) {
    expect_refused(run_on(bytes), 2, {why});
  }
  EXPECT_EQ(run_program(run_on(npy(good, six))).code, 0) << "the good one of the same making";
}

TEST_F(Hostile, NamesAreCheckedBeforeAnythingIsInflated) {
  NamedTensors arrays = io::read_arrays(inputs());
  arrays.emplace_back("unused", Tensor::i64({1, 2, 3, 4, 5, 6, 7, 8}));
  io::write_npz(file("unused.npz"), arrays);
  // Reading the unused array would find that its checksum is wrong.
  std::string bytes = read_file(file("unused.npz"));
  const size_t elements = bytes.find('\n', bytes.find("unused.npy")) + 1;
  bytes[elements] = static_cast<char>(bytes[elements] ^ 1);
  write_file(file("unused.npz"), bytes);
  const std::string arrays_file = file("unused.npz");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"run", engine(), "--inputs", arrays_file, "-o", file("out")},
           {"bench", engine(), "--inputs", arrays_file},
           {"verify", engine(), "--model", kModel, "--inputs", arrays_file},
           {"localise", engine(), "--model", kModel, "--inputs", arrays_file},
           {"bisect", engine(), "--model", kModel, "--inputs", arrays_file},
           {"reduce", engine(), "--model", kModel, "--inputs", arrays_file, "-o", file("part")}}) {
    expect_refused(arguments, 2,
                   {"input 'unused' does not exist; the engine's inputs are 'input_ids'"});
  }
  // Nor is an expected output that the engine does not have.
  NamedTensors wanted = io::read_arrays(expected());
  wanted.emplace_back("unused", Tensor::i64({1, 2, 3, 4, 5, 6, 7, 8}));
  io::write_npz(file("more.npz"), wanted);
  bytes = read_file(file("more.npz"));
  const size_t more = bytes.find('\n', bytes.find("unused.npy")) + 1;
  bytes[more] = static_cast<char>(bytes[more] ^ 1);
  write_file(file("more.npz"), bytes);
  expect_refused(
      {"verify", engine(), "--model", kModel, "--inputs", inputs(), "--expect", file("more.npz")},
      2, {"--expect: array 'unused'"});
}

TEST_F(HostileArrays, DamagedArchivesAreRefused) {
  const Tensor x = Tensor::from(DType::kF32, {2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6});
  io::write_npz(file("two.npz"), {{"x", x}, {"z", x}});
  const std::string bytes = read_file(file("two.npz"));
  const auto run_on_archive = [&](const std::string& archive) -> std::vector<std::string> {
    write_file(file("bad.npz"), archive);
    return {"run", file("exp.vn"), "--inputs", file("bad.npz"), "-o", file("y.npz")};
  };
  expect_refused(run_on_archive(bytes), 2,
                 {"input 'z' does not exist; the engine's inputs are 'x'"});
  std::string twice = bytes;
  for (size_t at = 0; (at = twice.find("z.npy")) != std::string::npos;) twice[at] = 'x';
  expect_refused(run_on_archive(twice), 2, {"bad.npz': array 'x.npy': is in the archive twice"});
  for (const size_t length : {bytes.size() / 4, bytes.size() / 2, bytes.size() - 1}) {
    expect_refused(run_on_archive(bytes.substr(0, length)), 2,
                   {"bad.npz'", "cannot be opened as .npz"});
  }
}

}  // namespace
}  // namespace vernier::test
