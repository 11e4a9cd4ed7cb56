// Arrays as the commands need them: in and out of a session, rows, lookup by name.
#pragma once
#include <string>
#include <vector>

#include "io/npz.h"
#include "vernier/session.h"

namespace vernier::cli {

/// Session::run on named arrays, and the answers as arrays of their own.
io::NamedTensors run_session(Session& session, const io::NamedTensors& inputs);
/// Views of the arrays, which must outlive them.
std::vector<Input> as_inputs(const io::NamedTensors& arrays);

/// Row `row` along axis 0 as an array with one row.
Tensor row_of(const Tensor& tensor, int64_t row);

/// The arrays whose name begins with `prefix`, without it ("in.ids" -> "ids").
io::NamedTensors with_prefix(const io::NamedTensors& arrays, const std::string& prefix);

}  // namespace vernier::cli
