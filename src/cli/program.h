// The program `vernier` as a function, which the Python package runs too (python -m vernier).
#pragma once

namespace vernier::cli {

/// Does what the command line asks for; argv[0] is the program's name. Installs handlers of
/// signals. Returns the exit code (docs/commands.md "Exit codes").
int program(int argc, char** argv);

}  // namespace vernier::cli
