// Small runs: see engine_runs.h.
#include "engine_runs.h"

#include "evaluate/plan_work.h"
#include "runtime/session_impl.h"
#include "vernier/inspect.h"
#include "vernier/synthetic.h"

namespace vernier::fuzz {
namespace {

// Elements of all arrays of an engine; more take too long in a sanitizer build.
constexpr int64_t kMostElems = 1 << 18;
// Operations of a run, by the operators' costs: few elements may need much work.
constexpr double kMostWork = 1 << 24;

class LaunchCounter : public RunObserver {
 public:
  void before_step(std::span<std::byte>) override { launched = true; }
  void after_step(int32_t, const backend::LaunchCall&) override {}
  bool launched = false;
};

Bytes bytes_of(std::span<const Output> outputs) {
  Bytes all;
  for (const Output& output : outputs) {
    const auto* data = static_cast<const std::byte*>(output.data);
    all.insert(all.end(), data, data + output.bytes);
  }
  return all;
}

Sizes largest_sizes(const Engine& engine) {
  Sizes sizes;
  for (const plan::Symbol& symbol : engine.impl().plan.symbols) sizes[symbol.name] = symbol.max;
  return sizes;
}

}  // namespace

Sizes small_sizes(const Engine& engine, Choices& choices) {
  Sizes sizes;
  for (const plan::Symbol& symbol : engine.impl().plan.symbols) {
    const int64_t room = std::min<int64_t>(symbol.max - symbol.min, 5);
    sizes[symbol.name] =
        symbol.min + static_cast<int64_t>(choices.below(static_cast<size_t>(room) + 1));
  }
  return sizes;
}

std::string text_of(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes)
    text.append(text.empty() ? "" : ",").append(name).append("=").append(std::to_string(size));
  return text;
}

bool fits(const Engine& engine, const Sizes& sizes) {
  int64_t total = 0;
  for (const plan::PlanValue& value : engine.impl().plan.values) {
    Shape shape;
    try {
      for (const Dim& dim : value.shape) shape.push_back(dim.evaluate(sizes));
    } catch (const Error&) {
      continue;  // a size that depends on data, or an invalid one: the run reports it
    }
    try {
      total += std::min(num_elems(shape), kMostElems);
    } catch (const Error&) {
      return false;
    }
    if (total >= kMostElems) return false;
  }
  try {
    return evaluate::work_of(engine.impl().plan, sizes) <= kMostWork;
  } catch (const Error&) {
    return true;  // the run reports it
  }
}

void inspect(const Engine& engine) {
  const bool small = fits(engine, largest_sizes(engine));
  for (const InspectFormat format : {InspectFormat::kText, InspectFormat::kJson}) {
    for (const EngineView view :
         {EngineView::kSummary, EngineView::kPlan, EngineView::kLedger, EngineView::kMemory}) {
      if (view == EngineView::kMemory && !small) continue;
      holds("inspect", [&] {
        if (inspect_engine(engine,
                           {.view = view, .format = format, .node = "", .shapes = "", .threads = 1})
                .empty())
          broken("inspect", "the output is empty");
      });
    }
  }
}

Outcome run_small(const std::shared_ptr<const Engine>& engine, Choices& choices) {
  bool launched = false, too_large = false;
  holds("run", [&] {
    Session session(engine, {.threads = 1 + static_cast<int>(choices.below(2))});
    for (int shape = 0; shape < 2; ++shape) {
      const Sizes sizes = small_sizes(*engine, choices);
      if (!fits(*engine, sizes)) {
        too_large = true;
        continue;
      }
      holds("run", [&] {
        const std::vector<InputArray> arrays = synthetic_inputs(*engine, text_of(sizes));
        std::vector<Input> inputs;
        for (const InputArray& array : arrays) inputs.push_back(array.ref());
        LaunchCounter counter;
        const auto watch = [&] { launched |= counter.launched; };
        try {
          const Bytes watched = bytes_of(session.impl().run(inputs, &counter));
          watch();
          if (bytes_of(session.run(inputs)) != watched)
            broken("run", "two runs on the same inputs differ");
        } catch (const Error&) {
          watch();
          throw;
        }
      });
    }
  });
  if (launched) return Outcome::kLaunched;
  return too_large ? Outcome::kTooLarge : Outcome::kRefused;
}

}  // namespace vernier::fuzz
