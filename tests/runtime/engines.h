// Engines from graph text, and runs of them, for tests that need no model file.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "runtime/session_impl.h"
#include "vernier/session.h"

namespace vernier::test {

using Arrays = std::map<std::string, Tensor>;

/// Planned for the device under test (runtime/models.h) without any pass, written and opened again.
std::shared_ptr<const Engine> engine_of(std::string_view text, const std::string& shapes = "");

Tensor f32(Shape shape, std::vector<double> values);
Tensor i64(Shape shape, std::vector<int64_t> values);
/// Seeded normal values.
Tensor random_f32(Shape shape, uint64_t seed);

/// The arrays as a session takes them; they must outlive the result.
std::vector<Input> inputs_of(const Arrays& arrays);
/// One run; outputs by name.
Arrays run(Session& session, const Arrays& arrays, RunObserver* observer = nullptr);

/// "" or the first difference: name, type, shape or element.
std::string difference(const Arrays& a, const Arrays& b);

}  // namespace vernier::test
