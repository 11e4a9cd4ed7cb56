// The fallback of modes that quantize: see fallback.h.
#include "compile/fallback.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/lines.h"
#include "evaluate/plan_work.h"
#include "evaluate/product_errors.h"
#include "precision/requests.h"

namespace vernier::compiler {
namespace {

// The first rounds keep as many products as their errors say; what these leave takes few more.
constexpr int kMaxRounds = 12;
constexpr uint64_t kSeed = 1;

// A quantized product, with the names and the keys of the ONNX nodes by which a rule finds it.
struct Product {
  std::vector<std::string> names, keys;
  evaluate::ProductError error;
};

struct Kept {
  Product product;
  double before = 0;  // of the answers
};

std::string percent(double part) { return fmt::format("{:.2g} %", 100 * part); }

// The products that the mode quantizes, those that cost the answers most first.
std::vector<Product> products_of(const plan::Plan& plan,
                                 const std::map<size_t, evaluate::ProductError>& errors,
                                 const precision::Policy& policy) {
  const DType type = precision::quantized_type(policy.mode);
  const bool rules_quantize = std::ranges::any_of(
      policy.rules, [&](const precision::Rule& rule) { return rule.compute.type == type; });
  std::vector<Product> products;
  for (const auto& [step, error] : errors) {
    Product product{.names = {}, .keys = {}, .error = error};
    for (const plan::LedgerRow& row : plan.ledger) {
      if (row.step != static_cast<int32_t>(step) || !precision::is_product(row.op)) continue;
      const bool by_rule = rules_quantize && row.asked.by.starts_with("rule");
      if (row.asked.compute.type != type || by_rule) continue;
      product.names.push_back(row.node);
      product.keys.push_back(row.key);
    }
    if (!product.names.empty()) products.push_back(std::move(product));
  }
  std::ranges::stable_sort(products, std::ranges::greater(),
                           [](const Product& product) { return product.error.answers; });
  return products;
}

// As many of the first as would bring the answers' error to `limit` if the squares of errors added
// up; at least one.
size_t needed(const std::vector<Product>& products, double answers, double limit) {
  double kept = 0;
  const double wanted = answers * answers - limit * limit;
  size_t count = 0;
  while (count < products.size() && (count == 0 || kept < wanted)) {
    kept += products[count].error.answers * products[count].error.answers;
    ++count;
  }
  return count;
}

// A name in a rule: always in quotes.
std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

std::string text_of(const Kept& kept, std::string_view mode, DType type, double after) {
  return fmt::format(
      "kept in {}: {} is off by {} of its result's rms and moves the answers by {}; answers {} "
      "-> "
      "{}",
      vernier::name(type), mode, percent(kept.product.error.result),
      percent(kept.product.error.answers), percent(kept.before), percent(after));
}

class Search {
 public:
  Search(const ir::Graph& model, Job& job)
      : model_(model),
        job_(job),
        backend_(backend_of(job.options)),
        mode_(precision::name(job.policy.mode)),
        wider_(job.policy.mode == precision::Mode::kW4 ? DType::kW8 : backend_.attended) {}

  Fallback run(std::optional<plan::Plan> exact) {
    exact_ =
        exact ? std::move(*exact) : plan_of(model_, job_, plan::PlanOptions::Constants::kExact);
    const auto is_quantized = [](const plan::Step& step) {
      return step.op == OpKind::kQuantizedLinear || step.op == OpKind::kWeightOnlyLinear;
    };
    if (std::ranges::none_of(exact_.steps, is_quantized)) return {};
    if (evaluate::product_errors_work(exact_) > evaluate::kMostWork) {
      found_.notes.push_back(fmt::format(
          "warning: {}: errors are not measured: at its fixed sizes one run of the model takes "
          "more than 2^40 operations in FP64. 'vernier verify' finds what is too much",
          mode_));
      return std::move(found_);
    }
    stage(job_.options, fmt::format("errors of {}", mode_));
    const evaluate::Domains domains = domains_of(model_);
    try {
      search({exact_, backend_, domains, kSeed, Watch(job_.options.limits)});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInput) throw;
      found_.notes.push_back(
          fmt::format("warning: {}: errors are not measured: the model refuses the seeded inputs "
                      "({}). 'vernier verify --inputs' on arrays of yours finds what is too much",
                      mode_, error.what()));
    }
    return std::move(found_);
  }

 private:
  void search(const evaluate::ProductErrorMeter& meter) {
    const double limit = job_.options.int8_error;
    std::vector<Product> products;
    for (int round = 0;; ++round) {
      const plan::Plan stored = plan_of(model_, job_);
      const double answers = meter.answers(stored);
      tell_after(answers);
      if (answers <= limit) return;
      if (round == 0) products = products_of(stored, meter.products(stored), job_.policy);
      if (products.empty() || round == kMaxRounds) return warn(answers, products.empty());
      // Half of them, so that few more are kept than must be.
      const auto count = static_cast<std::ptrdiff_t>((needed(products, answers, limit) + 1) / 2);
      for (auto product = products.begin(); product != products.begin() + count; ++product)
        keep(*product, answers);
      products.erase(products.begin(), products.begin() + count);
    }
  }

  void keep(const Product& product, double answers) {
    for (const std::string& name : product.names) {
      job_.policy.rules.push_back(precision::parse_rule(
          fmt::format("name:{} compute={}", quoted(name), vernier::name(wider_))));
    }
    kept_.push_back({product, answers});
  }

  void warn(double answers, bool none_left) {
    found_.notes.push_back(fmt::format(
        "warning: {}: the answers are off by {} on seeded inputs, more than {}: {}", mode_,
        percent(answers), percent(job_.options.int8_error),
        none_left ? fmt::format("no other product may be kept in {}, or none would help",
                                wider_ == DType::kW8 ? "w8" : "16 bits")
                  : "too many products cost much"));
  }

  // What the answers are off by with the products of this round kept.
  void tell_after(double answers) {
    for (const Kept& kept : kept_) {
      const std::string text = text_of(kept, mode_, wider_, answers);
      found_.notes.push_back(
          format_line("{}: '{}' {}", std::string(mode_), kept.product.names[0], text));
      for (const std::string& key : kept.product.keys) found_.why[key] = text;
      job_.fragile.insert(kept.product.keys.begin(), kept.product.keys.end());
    }
    kept_.clear();
  }

  const ir::Graph& model_;
  Job& job_;
  const backend::Backend& backend_;
  std::string_view mode_;
  DType wider_;  // of products that are kept
  plan::Plan exact_;
  std::vector<Kept> kept_;  // of the round before
  Fallback found_;
};

}  // namespace

Fallback keep_fragile_products(const ir::Graph& model, Job& job, std::optional<plan::Plan> exact) {
  if (precision::quantized_type(job.policy.mode) == DType::kUndefined ||
      job.options.int8_error >= 1)
    return {};
  return Search(model, job).run(std::move(exact));
}

void explain(const Fallback& fallback, plan::Plan& plan) {
  for (plan::LedgerRow& row : plan.ledger) {
    const auto found = fallback.why.find(row.key);
    if (found != fallback.why.end()) row.why += (row.why.empty() ? "" : "; ") + found->second;
  }
}

}  // namespace vernier::compiler
