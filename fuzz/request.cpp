// Fuzz target: a valid engine and hostile arrays: wrong names, types, ranks and sizes, ids outside
// their tables, NaN, no elements, no data. A request gives outputs or Error(kInput), and the
// session answers the next good request with the same bits as before.
// Input: choices of a seed (seeds.h), of the run, then one record for each change of a request.
#include <cstring>

#include "core/dtype.h"
#include "engine_runs.h"
#include "field_changes.h"
#include "plan_mutator.h"
#include "seeds.h"
#include "target.h"
#include "vernier/synthetic.h"

namespace vernier::fuzz {
namespace {

constexpr size_t kRunBytes = 8;
using Program = Records<kSeedBytes + kRunBytes, kChangeBytes>;

// One input of a request. The array has as many bytes as its shape requires, up to a limit.
struct Array {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<int64_t> shape;
  Bytes bytes;
  bool no_data = false;
};

constexpr int64_t kMostElems = 1 << 16;
// Beyond the size ranges of all seeds: refused before a byte is read.
constexpr int64_t kRefusedSize = 1 << 20;

// The bytes that a caller with this shape must have: none for a shape that is refused because of
// one size; empty if they are too many for this target.
std::optional<size_t> bytes_of(DType dtype, const std::vector<int64_t>& shape) {
  int64_t elems = 1;
  for (const int64_t size : shape)
    if (size < 0 || size >= kRefusedSize) return 0;
  for (const int64_t size : shape)
    if ((elems *= size) > kMostElems) return std::nullopt;
  return static_cast<size_t>(elems) * size_bytes(dtype);
}

// The array has the shape and type if it can have the bytes.
void reshape(Array& array, DType dtype, std::vector<int64_t> shape) {
  const std::optional<size_t> needed = bytes_of(dtype, shape);
  if (!needed) return;
  array.dtype = dtype;
  array.shape = std::move(shape);
  // Repeated, so that ids stay valid.
  const Bytes old = array.bytes;
  array.bytes.resize(*needed);
  for (size_t i = old.size(); !old.empty() && i < *needed; ++i)
    array.bytes[i] = old[i % old.size()];
}

void change_elements(Array& array, Choices& choices) {
  const size_t width = std::max<size_t>(size_bytes(array.dtype), 1);
  const size_t count = array.bytes.size() / width;
  if (count == 0) return;
  const size_t many = choices.one_in(4) ? count : 1 + choices.below(3);
  for (size_t i = 0; i < many; ++i) {
    const size_t at = (many == count ? i : choices.below(count)) * width;
    const bool is_number = is_float(array.dtype);
    const auto number = static_cast<uint64_t>(changed_integer(0, choices));
    const double real = changed_float(1, choices);
    uint64_t bits = number;
    if (is_number && array.dtype == DType::kF32)
      bits = std::bit_cast<uint32_t>(static_cast<float>(real));
    if (is_number && array.dtype == DType::kF64) bits = std::bit_cast<uint64_t>(real);
    if (array.dtype == DType::kBool) bits &= 1;
    std::memcpy(array.bytes.data() + at, &bits, std::min(width, sizeof bits));
  }
}

void change_shape(Array& array, Choices& choices) {
  std::vector<int64_t> shape = array.shape;
  if (shape.empty() || choices.one_in(6)) {
    shape.insert(shape.begin(), 1 + static_cast<int64_t>(choices.below(3)));
  } else if (choices.one_in(6)) {
    shape.pop_back();
  } else {
    int64_t& size = choices.of(shape);
    size = choices.one_in(3) ? changed_integer(size, choices)
                             : static_cast<int64_t>(choices.below(10));
  }
  reshape(array, array.dtype, std::move(shape));
}

void change_request(std::vector<Array>& request, Choices choices) {
  if (request.empty()) {
    request.push_back({.name = "x", .dtype = DType::kF32, .shape = {1}, .bytes = Bytes(4)});
    return;
  }
  Array& array = choices.of(request);
  switch (choices.below(16)) {
    case 0:
      change_text(array.name, choices);
      break;
    case 1:
      reshape(array, static_cast<DType>(choices.below(static_cast<size_t>(DType::kBool) + 1)),
              array.shape);
      break;
    case 2:
      array.no_data = true;
      break;
    case 3:
      change_list(request, choices);
      break;
    case 4:
    case 5:
    case 6:
      change_shape(array, choices);
      break;
    case 7:  // the same new size in every input: one named size of the engine
      for (Array& each : request) {
        Choices same = choices;
        std::vector<int64_t> shape = each.shape;
        if (!shape.empty()) shape[0] = static_cast<int64_t>(same.below(7));
        reshape(each, each.dtype, std::move(shape));
      }
      break;
    default:
      change_elements(array, choices);
  }
}

std::vector<Input> refs(const std::vector<Array>& request) {
  std::vector<Input> inputs;
  for (const Array& array : request) {
    inputs.push_back(
        {array.name, array.dtype, array.shape, array.no_data ? nullptr : array.bytes.data()});
  }
  return inputs;
}

Bytes copy(std::span<const Output> outputs) {
  Bytes all;
  for (const Output& output : outputs) {
    const auto* data = static_cast<const std::byte*>(output.data);
    all.insert(all.end(), data, data + output.bytes);
  }
  return all;
}

// Reads every byte of the outputs, so that a sanitizer checks them.
void answer(Session& session, const std::vector<Array>& request) {
  try {
    copy(session.run(refs(request)));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) broken("request", error.what());
  } catch (const std::exception& error) {
    broken("request", std::string("another exception than Error: ") + error.what());
  }
}

Outcome execute(std::span<const std::byte> input) {
  Choices choices(input);
  Choices of_seed = choices.part(kSeedBytes), of_run = choices.part(kRunBytes);
  const Seed seed = any_seed(of_seed);
  const auto engine = Engine::from_bytes(engine_file(seed.plan));
  const std::string sizes = text_of(small_sizes(*engine, of_run));
  std::vector<Array> good;
  for (InputArray& array : synthetic_inputs(*engine, sizes))
    good.push_back({array.name, array.dtype, array.shape, std::move(array.bytes)});
  Session session(engine, {.threads = 1 + static_cast<int>(of_run.below(2))});
  // Synthetic ids fit every table that has rows; an engine with an empty table has no good request.
  Bytes before;
  const bool has_good =
      holds("request " + seed.name, [&] { before = copy(session.run(refs(good))); });
  std::vector<Array> hostile = good;
  while (!choices.empty()) {
    change_request(hostile, choices.part(kChangeBytes));
    answer(session, hostile);
  }
  if (has_good && copy(session.run(refs(good))) != before)
    broken("request " + seed.name, "a good request gives other bits after a hostile one");
  return has_good ? Outcome::kLaunched : Outcome::kRefused;
}

}  // namespace

constinit const Target kRequest{"request", &Program::make, &Program::mutate, &execute};

}  // namespace vernier::fuzz
