// The program `vernier`.
#include "cli/program.h"

int main(int argc, char** argv) { return vernier::cli::program(argc, argv); }
