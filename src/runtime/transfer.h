// What goes between the caller's memory and the device's.
#pragma once
#include <span>
#include <vector>

#include "runtime/arguments.h"
#include "runtime/growing_memory.h"
#include "runtime/shape_entry.h"
#include "vernier/session.h"

namespace vernier::runtime {

class Transfer {
 public:
  /// All must outlive it.
  Transfer(const Engine::Impl& engine, const Arguments& arguments, backend::Device& device,
           const backend::Execution& execution);

  /// Brings the inputs and the shape values into the arena, where the device's memory is not the
  /// host's. `inputs`: by input of the plan. Host arrays go through the staging memory, in one copy
  /// where all are in host memory; arrays on the device each by itself. Without anything of the
  /// host's nothing is waited for.
  void stage(const ShapeEntry& entry, std::span<const Input* const> inputs, std::byte* arena);
  /// Leaves the outputs in the session's host memory, complete; valid until the next call.
  std::span<const Output> fetch(const ShapeEntry& entry);
  /// The output that a buffer of the caller's is for. Throws Error(kInput) where there is none of
  /// that name, or the buffer is too small.
  const backend::TensorArg& output_for(const ShapeEntry& entry, const OutputBuffer& buffer) const;
  void copy_to(const ShapeEntry& entry, std::span<const OutputBuffer> buffers);
  /// The elements of an argument that has its address. On a GPU it waits for the steps before.
  EvalTensor read(const backend::TensorArg& arg);

  /// Waits for what was enqueued.
  void synchronise();
  /// As synchronise() where copies are on their way; a broken device is not waited for.
  void finish() noexcept;
  /// Gives the memory up without freeing it: in a child by fork() it is the parent's.
  void abandon();

 private:
  void upload(const ShapeEntry& entry, std::span<const Input* const> inputs, std::byte* region);

  const Arguments& arguments_;
  backend::Device& device_;
  const backend::Execution& execution_;
  GrowingMemory staging_;
  bool staging_in_use_ = false;  // until the next synchronise()
  GrowingMemory fetched_;        // memory of outputs_
  std::vector<Output> outputs_;
  std::vector<size_t> output_offsets_;  // in fetched_
};

}  // namespace vernier::runtime
