// Handlers of signals: see signals.h. Everything here but the installing is async-signal-safe.
#include "cli/signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "vernier/error.h"
#include "vernier/process.h"

namespace vernier::cli {
namespace {

constexpr unsigned kPatienceSeconds = 1;
constexpr std::array kEndingSignals{SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU};

// Handlers have no other way to the program's state.
std::atomic<bool> stoppable{false}, interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void write_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// By the signal itself, so that the parent sees its default action.
[[noreturn]] void die_by(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);  // what a shell would say
}

void on_end(int signal) {
  remove_temporary_files();
  die_by(signal);
}

void on_interrupt(int signal) {
  if (!stoppable || interrupted.exchange(true)) on_end(signal);
  ::alarm(kPatienceSeconds);
}

// The work did not check in time: a long step.
void on_alarm(int /*signal*/) { on_end(interrupted ? SIGINT : SIGALRM); }

void on_bus_error(int signal, siginfo_t* info, void* /*context*/) {
  const char* name = mapped_file_at(info->si_addr);
  if (name == nullptr) die_by(signal);
  remove_temporary_files();
  write_text("vernier: error: '");
  write_text(name);
  write_text(
      "' was truncated or overwritten while it was mapped, so its data is lost. Run the command "
      "again on a complete file; replace files that are in use by renaming others over them, or "
      "open engines with --read-into-memory\n");
  ::_exit(static_cast<int>(ErrorCode::kMachine));
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void handle(int signal, void (*handler)(int)) {
  if (is_ignored(signal)) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a failed write, with a message
  for (int signal : kEndingSignals) handle(signal, &on_end);
  handle(SIGINT, &on_interrupt);
  handle(SIGALRM, &on_alarm);
  static std::array<std::byte, 1 << 16> stack_memory;
  stack_t stack{};
  stack.ss_sp = stack_memory.data();
  stack.ss_size = stack_memory.size();
  ::sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = &on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

std::function<bool()> stops_on_interrupt() {
  stoppable = true;
  return [] { return interrupted.load(std::memory_order_relaxed); };
}

void die_if_interrupted() {
  if (!interrupted) return;
  std::fflush(stdout);
  die_by(SIGINT);
}

}  // namespace vernier::cli
