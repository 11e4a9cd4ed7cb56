// Names and the register of temporary files: what WholeFile writes until it is whole.
#pragma once
#include <filesystem>

namespace vernier {

/// NAME.<pid>-<process>-<n>.tmp: beside `target`, so that a rename can put it there. <process>
/// tells this process from a later one of the same id. A long NAME is cut, with a hash of all of
/// it.
std::filesystem::path temporary_beside(const std::filesystem::path& target, int number);

/// Removes temporary files of `target` that nobody writes any more: the process of that id is gone
/// or another one, and no lock is held on the file (a process that is not seen from here, in
/// another container, holds one). Failing is no error.
void sweep_temporaries(const std::filesystem::path& target);

/// Has remove_temporary_files() remove `path` too, until the file is forgotten. -1: the register is
/// full, and only sweep_temporaries() will.
int register_temporary(const std::filesystem::path& path);
void forget_temporary(int record);

}  // namespace vernier
