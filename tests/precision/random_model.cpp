// Random small models: see random_model.h.
#include "precision/random_model.h"

#include <cmath>

namespace vernier::precision::testing {
namespace {

using onnx::attr_int;
using onnx::attr_ints;
using onnx::Attribute;
using onnx::Names;

class Writer {
 public:
  explicit Writer(std::mt19937_64& random) : random_(random) {
    model_.builder.input("x", onnx::kFloat, {"b", kSeq, kWidth});
    model_.builder.input("ids", onnx::kInt64, {"b", kSeq});
    model_.builder.input("mask", onnx::kFloat, {"b", int64_t{1}, int64_t{1}, kSeq});
    streams_ = {"x"};
  }

  RandomModel write() {
    const int parts = 2 + pick(4);
    for (int i = 0; i < parts; ++i) add_part();
    // Rounding noise must not be a matter of luck: every model ends in something that computes.
    const std::string last = linear(streams_.back());
    node("Add", {last, "mask_free_bias"}, "y");
    weight("mask_free_bias", {kWidth}, 0.1);
    model_.builder.output("y");
    if (pick(4) == 0 && streams_.size() > 2) {
      node("Tanh", {streams_[streams_.size() / 2]}, "z");
      model_.builder.output("z");
    }
    return std::move(model_);
  }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  std::string fresh(const char* stem) { return stem + std::string("_") + std::to_string(count_++); }

  std::string node(const char* op, const Names& inputs, std::string output = "",
                   const std::vector<Attribute>& attributes = {}) {
    const std::string name = "/" + fresh(op);
    if (output.empty()) output = name + "_out";
    model_.builder.node(op, inputs, {output}, attributes).set_name(name);
    model_.nodes.push_back({name, op, composite_});
    return output;
  }

  std::string weight(const std::string& name, const std::vector<int64_t>& dims, double deviation,
                     double mean = 0) {
    std::normal_distribution<double> normal(mean, deviation);
    size_t elems = 1;
    for (int64_t d : dims) elems *= static_cast<size_t>(d);
    std::vector<float> values(elems);
    for (float& v : values) v = static_cast<float>(normal(random_));
    model_.builder.initializer(onnx::f32_tensor(name, dims, values));
    return name;
  }
  std::string weight(const std::vector<int64_t>& dims, double deviation, double mean = 0) {
    return weight(fresh("w"), dims, deviation, mean);
  }
  std::string scalar(float value) {
    const std::string name = fresh("c");
    model_.builder.initializer(onnx::f32_tensor(name, {}, {value}));
    return name;
  }
  std::string sizes(const std::vector<int64_t>& values) {
    const std::string name = fresh("shape");
    model_.builder.initializer(
        onnx::i64_tensor(name, {static_cast<int64_t>(values.size())}, values));
    return name;
  }

  std::string stream() {
    return streams_[static_cast<size_t>(pick(static_cast<int>(streams_.size())))];
  }

  std::string linear(const std::string& x) {
    const std::string y =
        node("MatMul", {x, weight({kWidth, kWidth}, 1 / std::sqrt(double{kWidth}))});
    return pick(2) ? node("Add", {y, weight({kWidth}, 0.1)}) : y;
  }
  std::string gemm(const std::string& x) {
    const std::string flat = node("Reshape", {x, sizes({-1, kWidth})});
    const std::string y =
        node("Gemm", {flat, weight({kWidth, kWidth}, 0.25), weight({kWidth}, 0.1)});
    return node("Reshape", {y, sizes({-1, kSeq, kWidth})});
  }
  // softmax(x yᵀ) x with no heads: products of two run-time operands.
  std::string scores(const std::string& x) {
    const std::string t = node("Transpose", {stream()}, "", {attr_ints("perm", {0, 2, 1})});
    const std::string s = node("MatMul", {x, t});
    const std::string scaled = node("Mul", {s, scalar(0.25F)});
    if (pick(2)) return node("MatMul", {node("Tanh", {scaled}), x});
    return node("MatMul", {node("Softmax", {scaled}, "", {attr_int("axis", -1)}), x});
  }
  std::string heads(const std::string& x, std::vector<int64_t> perm) {
    const std::string split = node("Reshape", {linear(x), sizes({-1, kSeq, 4, 4})});
    return node("Transpose", {split}, "", {attr_ints("perm", perm)});
  }
  std::string attention(const std::string& x) {
    const std::string q = heads(x, {0, 2, 1, 3}), k = heads(x, {0, 2, 3, 1}),
                      v = heads(x, {0, 2, 1, 3});
    std::string s = node("Mul", {node("MatMul", {q, k}), scalar(0.5F)});
    if (pick(2)) s = node("Add", {s, "mask"});
    const std::string p = node("Softmax", {s}, "", {attr_int("axis", -1)});
    const std::string context =
        node("Transpose", {node("MatMul", {p, v})}, "", {attr_ints("perm", {0, 2, 1, 3})});
    return linear(node("Reshape", {context, sizes({-1, kSeq, kWidth})}));
  }
  std::string norm(const std::string& x) {
    const std::string scale = weight({kWidth}, 0.1, 1), bias = weight({kWidth}, 0.1);
    if (pick(2)) {
      return node("LayerNormalization", {x, scale, bias}, "",
                  {attr_int("axis", -1), onnx::attr_float("epsilon", 1e-5F)});
    }
    composite_ = "LayerNorm";
    const std::vector<Attribute> last = {attr_ints("axes", {-1}), attr_int("keepdims", 1)};
    const std::string centered = node("Sub", {x, node("ReduceMean", {x}, "", last)});
    const std::string squares = node("Pow", {centered, scalar(2)});
    const std::string variance = node("ReduceMean", {squares}, "", last);
    const std::string deviation = node("Sqrt", {node("Add", {variance, scalar(1e-5F)})});
    const std::string normal = node("Div", {centered, deviation});
    const std::string y = node("Add", {node("Mul", {normal, scale}), bias});
    composite_ = "";
    return y;
  }
  std::string gelu(const std::string& x) {
    composite_ = "Gelu";
    const std::string e = node("Erf", {node("Div", {x, scalar(std::sqrt(2.0F))})});
    const std::string one = node("Add", {e, scalar(1)});
    const std::string y = node("Mul", {node("Mul", {x, one}), scalar(0.5F)});
    composite_ = "";
    return y;
  }
  std::string views(const std::string& x) {
    const std::string split = node("Reshape", {x, sizes({-1, kSeq, 4, 4})});
    const std::string turned = node("Transpose", {split}, "", {attr_ints("perm", {0, 1, 3, 2})});
    return node("Reshape", {turned, sizes({-1, kSeq, kWidth})});
  }
  std::string concat(const std::string& x) {
    const std::string wide = node("Concat", {x, stream()}, "", {attr_int("axis", -1)});
    return node("MatMul", {wide, weight({2 * kWidth, kWidth}, 0.2)});
  }
  std::string center(const std::string& x) {
    const std::string mean = node("ReduceMean", {x}, "", {attr_ints("axes", {-1})});
    return node("Mul", {x, node("Tanh", {mean})});
  }
  std::string table(const std::string& x) {
    const std::string rows = node("Gather", {weight({kVocabulary, kWidth}, 1), "ids"});
    return node("Add", {rows, x});
  }

  void add_part() {
    const std::string x = stream();
    std::string y;
    switch (pick(13)) {
      case 0:
      case 1:
        y = linear(x);
        break;
      case 2:
        y = gemm(x);
        break;
      case 3:
        y = scores(x);
        break;
      case 4:
        y = attention(x);
        break;
      case 5:
      case 6:
        y = norm(x);
        break;
      case 7:
        y = gelu(linear(x));
        break;
      case 8:
        y = node("Softmax", {x}, "", {attr_int("axis", -1)});
        break;
      case 9:
        y = views(x);
        break;
      case 10:
        y = concat(x);
        break;
      case 11:
        y = center(x);
        break;
      default:
        y = table(x);
        break;
    }
    if (pick(3) == 0) y = node("Add", {y, stream()});
    if (pick(8) == 0) y = node("Tanh", {y});
    streams_.push_back(y);
  }

  std::mt19937_64& random_;
  RandomModel model_;
  std::vector<std::string> streams_;
  std::string composite_;
  int count_ = 0;
};

}  // namespace

RandomModel random_model(std::mt19937_64& random) { return Writer(random).write(); }

}  // namespace vernier::precision::testing
