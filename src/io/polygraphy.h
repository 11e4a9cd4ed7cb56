// Arrays in the JSON of NVIDIA's Polygraphy: what `polygraphy run` saves as inputs and as outputs,
// and loads. An array is an .npy file in base64. Contract: docs/migrating_from_polygraphy.md.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace vernier::io {

/// One set of arrays for each iteration.
using ArraySets = std::vector<NamedTensors>;

/// Is the file JSON, by its first character? False where it cannot be read.
bool is_json_file(const std::filesystem::path& path);

/// The inputs of a list of iterations or of one, or the results of one runner. Throws Error(kInput)
/// naming file and array: other JSON, arrays that are no NumPy arrays, results of several runners;
/// Error(kMachine) if the file cannot be read.
ArraySets read_polygraphy(const std::filesystem::path& path);
/// The same from memory; `name` stands for the file in messages.
ArraySets read_polygraphy_bytes(std::span<const std::byte> bytes, const std::string& name);

/// Writes results of a runner called "vernier", as read_polygraphy() and `polygraphy run
/// --load-outputs` read them, whole or not at all. bf16 is written as f4 (exact). Throws
/// Error(kInput) for f8 types, Error(kMachine) if the file cannot be written.
void write_polygraphy(const std::filesystem::path& path, const ArraySets& results);

}  // namespace vernier::io
