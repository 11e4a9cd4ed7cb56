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

// The first rounds keep half of the products that their errors ask for, so that few more are kept
// than must be; later ones all, then twice as many each time.
constexpr int kMaxRounds = 12, kCarefulRounds = 6;
// Products that are quantized again for a trial, each in one evaluation.
constexpr int kMostTrials = 8;
constexpr uint64_t kSeed = 1;

// A quantized product, with the names and the keys of the ONNX nodes by which a rule finds it.
struct Product {
  std::vector<std::string> names, keys;
  evaluate::ProductError error;
};

struct Kept {
  Product product;
  double before = 0, after = 0;  // errors of the answers around its round
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

// As many of the first as would bring the answers' error to `limit` if squares of errors added up,
// or were in proportion to what they add up to if that is less than the answers' error; at least
// one.
size_t needed(const std::vector<Product>& products, double answers, double limit) {
  double all = 0;
  for (const Product& product : products) all += product.error.answers * product.error.answers;
  const double wanted =
      (1 - limit * limit / (answers * answers)) * std::min(all, answers * answers);
  double kept = 0;
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

std::string text_of(const Kept& kept, std::string_view mode, DType type) {
  return fmt::format(
      "kept in {}: {} is off by {} of its result's rms and moves the answers by {}; answers {} "
      "-> "
      "{}",
      vernier::name(type), mode, percent(kept.product.error.result),
      percent(kept.product.error.answers), percent(kept.before), percent(kept.after));
}

class Search {
 public:
  Search(const ir::Graph& model, Job& job)
      : model_(model),
        job_(job),
        backend_(backend_of(job.options)),
        mode_(precision::name(job.policy.mode)),
        wider_(job.policy.mode == precision::Mode::kW4 ? DType::kW8 : backend_.attended),
        users_(job.policy.rules) {}

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
    double answers = 0;
    size_t told = 0;  // products of the rounds before
    for (int round = 0;; ++round) {
      const plan::Plan stored = plan_of(model_, job_);
      answers = meter.answers(stored);
      for (; told < kept_.size(); ++told) kept_[told].after = answers;
      if (answers <= limit) break;
      if (round == 0) products = products_of(stored, meter.products(stored), job_.policy);
      if (products.empty() || round == kMaxRounds) {
        tell();
        return warn(answers, products.empty());
      }
      const size_t asked = needed(products, answers, limit);
      const size_t count = round < kCarefulRounds
                               ? (asked + 1) / 2
                               : std::min(products.size(), asked << (round - kCarefulRounds));
      const auto end = products.begin() + static_cast<std::ptrdiff_t>(count);
      for (auto product = products.begin(); product != end; ++product)
        kept_.push_back({.product = *product, .before = answers});
      products.erase(products.begin(), end);
      apply(kept_);
    }
    const size_t all = kept_.size();
    const double with_fewer = quantize_again(meter, limit, answers);
    tell();
    if (kept_.size() == all) return;
    found_.notes.push_back(fmt::format(
        "{}: quantized after all: {} of {} products that were to be kept in {}; the others "
        "suffice: answers {} -> {}",
        mode_, all - kept_.size(), all, vernier::name(wider_), percent(answers),
        percent(with_fewer)));
  }

  // Takes out what was kept and need not be, now that others are: those that cost the least first.
  // What the answers, so far off by `answers`, are then off by.
  double quantize_again(const evaluate::ProductErrorMeter& meter, double limit, double answers) {
    if (kept_.size() < 2) return answers;  // a single one is needed
    size_t at = kept_.size();
    for (int trial = 0; trial < kMostTrials && at > 0; ++trial) {
      std::vector<Kept> fewer = kept_;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(--at));
      apply(fewer);
      const double tried = meter.answers(plan_of(model_, job_));
      if (tried > limit) continue;
      answers = tried;
      kept_ = std::move(fewer);
    }
    apply(kept_);
    return answers;
  }

  // The user's rules, and behind them those that keep products.
  void apply(const std::vector<Kept>& all) {
    job_.policy.rules = users_;
    for (const Kept& kept : all) {
      for (const std::string& name : kept.product.names) {
        job_.policy.rules.push_back(precision::parse_rule(
            fmt::format("name:{} compute={}", quoted(name), vernier::name(wider_))));
      }
    }
  }

  void warn(double answers, bool none_left) {
    found_.notes.push_back(fmt::format(
        "warning: {}: the answers are off by {} on seeded inputs, more than {}: {}", mode_,
        percent(answers), percent(job_.options.int8_error),
        none_left ? fmt::format("no other product may be kept in {}, or none would help",
                                wider_ == DType::kW8 ? "w8" : "16 bits")
                  : "too many products cost much"));
  }

  void tell() {
    for (const Kept& kept : kept_) {
      const std::string text = text_of(kept, mode_, wider_);
      found_.notes.push_back(
          format_line("{}: '{}' {}", std::string(mode_), kept.product.names[0], text));
      for (const std::string& key : kept.product.keys) found_.why[key] = text;
      job_.fragile.insert(kept.product.keys.begin(), kept.product.keys.end());
    }
  }

  const ir::Graph& model_;
  Job& job_;
  const backend::Backend& backend_;
  std::string_view mode_;
  DType wider_;  // of products that are kept
  plan::Plan exact_;
  const std::vector<precision::Rule> users_;
  std::vector<Kept> kept_;
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
