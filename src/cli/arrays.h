// Arrays as the commands need them: in and out of a session, rows, lookup by name.
#pragma once
#include <string>
#include <vector>

#include "io/npz.h"
#include "vernier/session.h"

namespace vernier::cli {

/// The arrays of a file for this session: names, types and shapes are checked before any element is
/// read, with the errors of Session::run().
io::NamedTensors read_inputs(Session& session, const std::string& path);
/// As above, for a command that makes its sessions later; one is made for the check.
io::NamedTensors read_inputs(const std::string& engine, const std::vector<std::string>& plugins,
                             const std::string& path);
/// Arrays named as the engine's outputs. One of another name is not read: it comes back empty, for
/// whoever compares them to refuse.
io::NamedTensors read_outputs(const std::string& engine, const std::vector<std::string>& plugins,
                              const std::string& path);

/// Session::run on named arrays, and the answers as arrays of their own.
io::NamedTensors run_session(Session& session, const io::NamedTensors& inputs);
/// Views of the arrays, which must outlive them.
std::vector<Input> as_inputs(const io::NamedTensors& arrays);

/// Row `row` along axis 0 as an array with one row.
Tensor row_of(const Tensor& tensor, int64_t row);

/// The arrays whose name begins with `prefix`, without it ("in.ids" -> "ids").
io::NamedTensors with_prefix(const io::NamedTensors& arrays, const std::string& prefix);

}  // namespace vernier::cli
