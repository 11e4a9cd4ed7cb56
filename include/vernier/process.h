// For programs that install signal handlers: what Vernier leaves in the file system and maps from
// it. The library installs none; `vernier` (src/cli/signals.cpp) shows how these are used. All are
// async-signal-safe: they take no lock and allocate nothing.
#pragma once

namespace vernier {

/// Removes the temporary files that this process is writing: for a handler that ends the process.
void remove_temporary_files() noexcept;

/// The name, as a terminal may show it, of the mapped file (an engine, a model, its weights) whose
/// memory holds `address`; null: none. For a handler of SIGBUS, which the system sends when a
/// mapped file was cut short.
const char* mapped_file_at(const void* address) noexcept;

}  // namespace vernier
