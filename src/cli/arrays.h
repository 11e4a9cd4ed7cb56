// Arrays as the commands need them: in and out of a session, rows, lookup by name.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "io/npz.h"
#include "io/polygraphy.h"
#include "vernier/session.h"
#include "vernier/verify.h"

namespace vernier::cli {

/// The arrays of a file for this session: names, types and shapes are checked before any element is
/// read, with the errors of Session::run(). Of several sets the first, with a warning.
NamedTensors read_inputs(Session& session, const std::string& path);
/// Warns that only the first of `count` sets of a file is used.
void warn_of_more(const std::string& path, size_t count);
/// All sets of arrays of a file: one of an .npz or .npy file, one for each iteration of JSON that
/// Polygraphy saved. Checked as read_inputs() does.
/// An .npz with an array cu_seqlens, which no input of the engine is called, holds packed arrays
/// (vernier/packed.h): they come back padded, and `starts`, where given, is filled.
io::ArraySets read_input_sets(Session& session, const std::string& path,
                              std::vector<int64_t>* starts = nullptr);
/// These with their names for reports, for a command that makes its sessions later.
std::vector<verify::UserInputs> read_user_inputs(const std::string& engine,
                                                 const std::vector<std::string>& plugins,
                                                 const std::string& path);
/// Arrays named as the engine's outputs. One of another name is not read: it comes back empty, and
/// the comparison refuses it.
NamedTensors read_outputs(const std::string& engine, const std::vector<std::string>& plugins,
                          const std::string& path);

/// Session::run on named arrays, and the answers as arrays of their own.
NamedTensors run_session(Session& session, const NamedTensors& inputs);
/// Views of the arrays, which must outlive them.
std::vector<Input> as_inputs(const NamedTensors& arrays);

/// Row `row` along axis 0 as an array with one row.
Tensor row_of(const Tensor& tensor, int64_t row);

/// [{"name": "ids", "type": "i64", "shape": [4, 48]}, …] (docs/json.md).
nlohmann::json json_of(const NamedTensors& arrays);

/// The arrays whose name begins with `prefix`, without it ("in.ids" -> "ids").
NamedTensors with_prefix(const NamedTensors& arrays, const std::string& prefix);

}  // namespace vernier::cli
