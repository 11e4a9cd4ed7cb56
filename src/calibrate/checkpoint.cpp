// Checkpoints: see checkpoint.h.
#include "calibrate/checkpoint.h"

#include <cstring>

#include "core/error.h"
#include "io/npz.h"

namespace vernier::calibration {
namespace {

Tensor floats(const std::vector<float>& values, Shape shape) {
  return Tensor::from_bytes(DType::kF32, std::move(shape), std::as_bytes(std::span(values)));
}

const Tensor* named(const NamedTensors& arrays, const std::string& name) {
  for (const auto& [own, tensor] : arrays) {
    if (own == name) return &tensor;
  }
  return nullptr;
}

// The array as floats; false if it is absent, or of another type or size.
bool take(const NamedTensors& arrays, const std::string& name, int64_t elems,
          std::vector<float>& values) {
  const Tensor* array = named(arrays, name);
  if (array == nullptr || array->dtype() != DType::kF32 || array->elems() != elems) return false;
  values.resize(elems);
  if (elems > 0) std::memcpy(values.data(), array->data(), array->bytes());
  return true;
}

bool take_all(const NamedTensors& arrays, const std::string& about, Done& done,
              std::vector<SiteSample>& samples) {
  const Tensor* text = named(arrays, "about");
  const Tensor* counts = named(arrays, "done");
  const Tensor* rows = named(arrays, "rows");
  if (text == nullptr || counts == nullptr || rows == nullptr) return false;
  if (text->dtype() != DType::kU8 || text->bytes() != about.size() ||
      std::memcmp(text->data(), about.data(), about.size()) != 0)
    return false;
  if (counts->dtype() != DType::kI64 || counts->elems() != 3 || rows->dtype() != DType::kI64 ||
      rows->elems() != std::ssize(samples))
    return false;
  done = {counts->integer_at(0), counts->integer_at(1), counts->integer_at(2)};
  for (size_t s = 0; s < samples.size(); ++s) {
    SiteSample& sample = samples[s];
    sample.rows = rows->integer_at(static_cast<int64_t>(s));
    const std::string site = std::to_string(s);
    if (sample.rows < 0 || !take(arrays, site + ".low", sample.channels, sample.low) ||
        !take(arrays, site + ".high", sample.channels, sample.high) ||
        !take(arrays, site + ".kept", sample.kept_rows() * sample.channels, sample.kept))
      return false;
  }
  return done.files >= 0 && done.pieces >= 0 && done.batches >= 0;
}

}  // namespace

std::filesystem::path checkpoint_of(const std::filesystem::path& output) {
  std::filesystem::path path = output;
  path += ".checkpoint.npz";
  return path;
}

void write_checkpoint(const std::filesystem::path& path, const std::string& about, const Done& done,
                      const std::vector<SiteSample>& samples) {
  std::vector<int64_t> rows;
  for (const SiteSample& sample : samples) rows.push_back(sample.rows);
  NamedTensors arrays{{"about", Tensor::from_bytes(DType::kU8, {std::ssize(about)},
                                                   std::as_bytes(std::span(about)))},
                      {"done", Tensor::i64({done.files, done.pieces, done.batches})},
                      {"rows", Tensor::i64(std::move(rows))}};
  for (size_t s = 0; s < samples.size(); ++s) {
    const SiteSample& sample = samples[s];
    const std::string site = std::to_string(s);
    arrays.emplace_back(site + ".low", floats(sample.low, {sample.channels}));
    arrays.emplace_back(site + ".high", floats(sample.high, {sample.channels}));
    arrays.emplace_back(site + ".kept", floats(sample.kept, {sample.kept_rows(), sample.channels}));
  }
  io::write_npz(path, arrays);
}

Resume read_checkpoint(const std::filesystem::path& path, const std::string& about, Done& done,
                       std::vector<SiteSample>& samples) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Resume::kNothing;
  Done read_done;
  std::vector<SiteSample> read_samples = samples;
  try {
    if (!take_all(io::read_arrays(path), about, read_done, read_samples)) return Resume::kOfOther;
  } catch (const Error& damaged) {
    if (damaged.code() != ErrorCode::kInput) throw;
    return Resume::kOfOther;
  }
  done = read_done;
  samples = std::move(read_samples);
  return Resume::kGoesOn;
}

}  // namespace vernier::calibration
