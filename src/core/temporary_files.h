// Names and the register of temporary files, which WholeFile writes before the rename.
#pragma once
#include <filesystem>

namespace vernier {

/// NAME.<pid>-<process>-<n>.tmp in the folder of `target`, for a rename. <process> distinguishes
/// this process from a later one with the same id. A long NAME is cut, with a hash of the whole
/// name.
std::filesystem::path temporary_beside(const std::filesystem::path& target, int number);

/// Removes temporary files of `target` that are no longer written: the process of that id has ended
/// or is another one, and the file is not locked (a process in another container, which is not
/// visible here, holds a lock). Failures are ignored.
void sweep_temporaries(const std::filesystem::path& target);

/// Registers `path` for remove_temporary_files() until the file is unregistered. -1: the register
/// is full; then only sweep_temporaries() removes the file.
int register_temporary(const std::filesystem::path& path);
void forget_temporary(int record);

}  // namespace vernier
