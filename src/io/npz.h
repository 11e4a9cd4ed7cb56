// Reading and writing NumPy arrays: .npz archives and single .npy files, with a header parser of
// our own. Contract: docs/architecture.md ("Inputs and outputs").
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace vernier::io {

/// What a file says of one array.
struct ArrayHeader {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
};

/// An .npz archive or .npy file, opened: names, types and shapes are known and checked against the
/// sizes that the file claims; elements are read (and inflated) one array at a time, on demand.
/// Takes memory for the directory of the archive, and for what read() returns.
class ArrayFile {
 public:
  /// Maximum number of arrays in one archive.
  static constexpr size_t kMostArrays = 65536;

  /// Throws as read_arrays() does, for all that can be known without the elements.
  static ArrayFile open(const std::filesystem::path& path);
  /// `bytes` must outlive it. `name` stands for the file in messages and for an .npy's stem.
  static ArrayFile from_bytes(std::span<const std::byte> bytes, const std::string& name);
  ~ArrayFile();
  ArrayFile(ArrayFile&&) noexcept;

  /// In the order of the archive.
  const std::vector<ArrayHeader>& headers() const;
  /// The elements of one array. Memory is touched as they come, so that a file which claims more
  /// than it has costs what it has. Throws Error(kInput) for damaged elements.
  Tensor read(size_t index) const;
  NamedTensors read_all() const;

  struct Impl;  // in npz.cpp

 private:
  explicit ArrayFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Every array of an .npz archive ("x.npy" is called "x"), or the one array of an .npy file, whose
/// name is the file's stem. Fortran-ordered arrays are transposed to row-major order.
/// Types: f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8, b1; little-endian.
/// Throws Error(kInput) naming file and array: other types, Python objects, damaged files, sizes
/// that do not fit; Error(kMachine) if the file cannot be read.
NamedTensors read_arrays(const std::filesystem::path& path);

/// As read_arrays, from memory. `name` stands for the file in messages and for an .npy's stem.
NamedTensors read_arrays_bytes(std::span<const std::byte> bytes, const std::string& name);

/// A tensor as an .npy file. bf16, f4e2m1, the fnuz types and f8e8m0 become f4, integers of 4 and 2
/// bits i1 or u1 (all exact). Throws Error(kInput) "<where>: …" for f8e4m3 and f8e5m2.
std::string npy_bytes(const Tensor& tensor, const std::string& where);

/// Writes an uncompressed .npz archive, whole or not at all (core/whole_file.h). Types become
/// NumPy's as in npy_bytes. Equal arrays give equal bytes. Throws Error(kInput) for f8e4m3 and
/// f8e5m2, double or empty names and a path that is not a regular file, Error(kMachine) if the file
/// cannot be written.
void write_npz(const std::filesystem::path& path, const NamedTensors& arrays);

/// `paths` with each folder replaced by the .npz files in it, by name. Throws Error(kInput) naming
/// `option` for a folder without any.
std::vector<std::filesystem::path> array_files(const std::vector<std::filesystem::path>& paths,
                                               const std::string& option);

/// Hex hash of names, types, shapes and elements; the order of the arrays does not matter.
std::string data_hash(const NamedTensors& arrays);

}  // namespace vernier::io
