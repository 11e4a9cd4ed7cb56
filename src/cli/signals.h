// What the program does with signals; the library installs no handlers.
#pragma once
#include <functional>

namespace vernier::cli {

/// Signals that end the program remove its temporary files first, and it still dies by them, so
/// that a shell sees why. A file that was cut short while it was mapped (SIGBUS) is named, exit
/// code 3. Signals that the program was started with as ignored (nohup) stay so.
void install_signal_handlers();

/// For Limits::stop, of work that asks it often: from here on Ctrl-C ends the work between its
/// steps, with a message that says where; a second one, or a second without an answer, at once.
std::function<bool()> stops_on_interrupt();

/// After the work: dies by SIGINT where Ctrl-C has ended it, with what was printed.
void die_if_interrupted();

}  // namespace vernier::cli
