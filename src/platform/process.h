// Starting another program in front of which we stand: found on the path, given a changed environment, sent on the
// signals that reach us, waited for, and its exit code handed back as a shell would. Or measured: run apart from the
// terminal, with what it prints taken in.
//
// Threads: call from the main thread of a program that has no other; run_program() and run_captured() change its signal
// mask while they wait and restore it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace artesian {

struct Command {
  std::string path;                                              // of the file to execute, see find_program()
  std::vector<std::string> arguments;                            // [0] is the name as typed
  std::vector<std::pair<std::string, std::string>> environment;  // set on top of our own
};

constexpr int exit_not_found = 127;
constexpr int exit_not_executable = 126;

// Where `name` is: itself if it has a slash, else the first executable in `search_path` (the value of PATH).
// not_found, or rejected where there is something that cannot be executed; program_exit_code() maps both.
Result<std::string> find_program(std::string_view name, std::string_view search_path);

// 127 for not_found, 126 for anything else: what a shell exits with for a program that could not be started.
int program_exit_code(const Error& error);

// Runs the command to its end; returns its exit code, 128 + n if signal n ended it. Signals that somebody sends to us
// are sent on (those that a terminal sends reach the program by themselves); when it stops we stop. If we are killed,
// the program gets SIGTERM.
Result<int> run_program(const Command& command);

struct CaptureOptions {
  Nanos time_max{0};           // then the program is ended; 0: it may take as long as it likes
  std::function<void()> tick;  // about ten times a second, to show that something goes on
};

struct Captured {
  int exit_code = 0;  // 128 + n if signal n ended it
  std::string out, err;
  std::optional<Nanos> first_output;  // from the start to the first byte on stdout
  Nanos wall{0};                      // from the start to the end
  bool timed_out = false;
  int interrupted = 0;  // the signal that was sent to us meanwhile and ended the program; 0: none
};

// Runs the command to its end in a process group of its own, stdin empty. SIGINT, SIGTERM, SIGHUP and SIGQUIT that
// reach us, and the end of the time, send SIGTERM to the group and some seconds later SIGKILL. If we are killed, the
// program gets SIGTERM.
Result<Captured> run_captured(const Command& command, const Clock& clock, const CaptureOptions& options);

// A program that runs beside us, in a process group of its own, with our output. If we are killed, it gets SIGTERM.
// Threads: one caller at a time; start it from a thread that lives as long as it. Destruction kills it and waits.
class ChildProcess {
 public:
  static Result<ChildProcess> start(const Command& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  int pid() const { return pid_; }
  // A descriptor of its own that becomes readable when the program has ended; the caller closes it.
  Result<int> end_descriptor() const;
  // As run_program() gives it, once the program has ended; nothing while it runs.
  std::optional<int> exit_code();
  void ask_to_end() const;  // SIGTERM
  void kill() const;        // SIGKILL

 private:
  explicit ChildProcess(int pid) : pid_(pid) {}
  int pid_ = -1;
  std::optional<int> exit_code_;
};

// Becomes the command. Returns only if that failed.
Error replace_process(const Command& command);

// The file that this process was started from.
Result<std::string> own_executable();

// Whether a process with this number is there (it may be somebody else's).
bool process_exists(int pid);
int own_pid();

// For a display that refreshes itself; interrupted by signals.
void pause_for_seconds(unsigned seconds);

}  // namespace artesian
