#include "platform/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <utility>
#include <vector>

namespace artesian {
namespace {

// Sent on when somebody sends them to us. SIGTSTP is not acted on here: when the program stops, we do.
constexpr std::array forwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

Error start_error(const std::string& path, int error) {
  if (error == ENOENT) {
    // The file was found, so what is missing is what it asks to be run by.
    return Error{Code::not_found, fmt::format("{}: cannot be started: its interpreter or loader is missing", path)};
  }
  return Error{Code::rejected, fmt::format("{}: cannot be started: {}", path, strerror(error))};
}

Status check_executable(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return fail(Code::not_found, "{}: there is no such program", path);
    return fail(Code::rejected, "{}: cannot be started: {}", path, strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) return fail(Code::rejected, "{}: is a folder, not a program", path);
  if (::access(path.c_str(), X_OK) != 0) return fail(Code::rejected, "{}: is not executable", path);
  return {};
}

// The arguments and environment as exec wants them; the pointers live as long as this.
class ExecBlock {
 public:
  explicit ExecBlock(const Command& command) : arguments_(command.arguments) {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::string_view name = text.substr(0, text.find('='));
      bool replaced = false;
      for (const auto& [ours, value] : command.environment) replaced = replaced || name == ours;
      if (!replaced) environment_.emplace_back(text);
    }
    for (const auto& [name, value] : command.environment) environment_.push_back(name + "=" + value);
    for (auto& text : arguments_) argv_.push_back(text.data());
    for (auto& text : environment_) envp_.push_back(text.data());
    argv_.push_back(nullptr);
    envp_.push_back(nullptr);
  }
  ExecBlock(const ExecBlock&) = delete;
  ExecBlock& operator=(const ExecBlock&) = delete;

  // Also runs a script without a first line, as shells do.
  void exec(const std::string& path) const { ::execvpe(path.c_str(), argv_.data(), envp_.data()); }

 private:
  std::vector<std::string> arguments_, environment_;
  std::vector<char*> argv_, envp_;
};

class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&set_);
    for (const int signal : forwarded) sigaddset(&set_, signal);
    sigaddset(&set_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~BlockedSignals() { restore(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  const sigset_t& set() const { return set_; }

 private:
  sigset_t set_{}, before_{};
};

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { close(); }
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read, write;

  static Result<Pipe> open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Code::device_failed, "pipe: {}", strerror(errno));
    return Pipe{Fd(ends[0]), Fd(ends[1])};
  }
};

// Where a child's output goes; -1: where ours goes. A captured child has no stdin.
struct Capture {
  int out = -1, err = -1;
  bool own_group = false;
};

// In the child: never returns. Only calls that are allowed after a fork.
[[noreturn]] void become(const ExecBlock& block, const std::string& path, const BlockedSignals& signals, pid_t parent,
                         int report, const Capture& capture) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(128 + SIGTERM);  // the parent died before the line above
  if (capture.own_group) ::setpgid(0, 0);
  if (capture.out >= 0) {
    const int nothing = ::open("/dev/null", O_RDONLY);  // NOLINT(cppcoreguidelines-pro-type-vararg)
    if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(capture.out, STDOUT_FILENO) < 0 ||
        ::dup2(capture.err, STDERR_FILENO) < 0) {
      _exit(exit_not_executable);
    }
  }
  signals.restore();
  block.exec(path);
  const int error = errno;
  const ssize_t written = ::write(report, &error, sizeof error);
  static_cast<void>(written);
  _exit(exit_not_executable);
}

// The child, running the command, or why it could not be started.
Result<pid_t> start(const Command& command, const BlockedSignals& signals, const Capture& capture) {
  auto report = Pipe::open();
  if (!report) return fail(report.error());
  const ExecBlock block(command);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return fail(Code::device_failed, "{}: cannot be started: fork: {}", command.path, strerror(errno));
  }
  if (child == 0) become(block, command.path, signals, parent, report->write.get(), capture);
  report->write.close();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(report->read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof error)) return child;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return fail(start_error(command.path, error));
}

// Returns the exit code once the child is gone, nothing while it is there.
bool reap(pid_t child, int& exit_code, bool stop_with_it = true) {
  int status = 0;
  while (true) {
    const pid_t pid = ::waitpid(child, &status, WNOHANG | (stop_with_it ? WUNTRACED : 0));
    if (pid < 0 && errno == EINTR) continue;
    if (pid != child) return false;
    if (WIFEXITED(status)) {
      exit_code = WEXITSTATUS(status);
      return true;
    }
    if (WIFSIGNALED(status)) {
      exit_code = 128 + WTERMSIG(status);
      return true;
    }
    if (WIFSTOPPED(status)) {
      ::raise(SIGSTOP);  // so that the shell sees the job stopped; here it goes on after `fg`
      ::kill(child, SIGCONT);
    }
  }
}

int wait_and_forward(pid_t child, const sigset_t& set) {
  int exit_code = 0;
  while (!reap(child, exit_code)) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&set, &info);
    if (signal < 0 || signal == SIGCHLD) continue;
    // A terminal sends to the whole group, the program included: a second SIGINT would mean "at once" to a server.
    const bool sent_to_us = info.si_code <= 0;
    if (sent_to_us && info.si_pid != child) ::kill(child, signal);
  }
  return exit_code;
}

constexpr Nanos tick_time = std::chrono::milliseconds(100);
constexpr Nanos grace_time = std::chrono::seconds(10);  // between SIGTERM and SIGKILL

// Takes in what a child prints until it ends, and ends it when it must.
class CaptureLoop {
 public:
  CaptureLoop(pid_t child, Fd out, Fd err, int arrived, const Clock& clock, const CaptureOptions& options, Nanos begin)
      : child_(child),
        out_(std::move(out)),
        err_(std::move(err)),
        arrived_(arrived),
        clock_(clock),
        options_(options),
        begin_(begin),
        ticked_(begin) {
    for (const Fd* fd : {&out_, &err_}) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  }

  Captured run() {
    while (true) {
      std::array<pollfd, 3> wanted = {
          {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}, {arrived_, POLLIN, 0}}};  // a closed one is left out
      ::poll(wanted.data(), wanted.size(), static_cast<int>(tick_time / std::chrono::milliseconds(1)));
      take_signals();
      // The child is looked at first: what it printed before its end is in the pipes by then.
      const bool gone = reap(child_, result_.exit_code);
      take_output();
      result_.wall = clock_.now() - begin_;
      if (gone) return std::move(result_);
      watch_time();
    }
  }

 private:
  void take_signals() {
    signalfd_siginfo info{};
    while (::read(arrived_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP && signal != SIGQUIT) continue;
      if (result_.interrupted == 0) result_.interrupted = signal;
      end_child();
    }
  }

  void take_output() {
    const std::size_t before = result_.out.size();
    drain(out_, result_.out);
    if (before == 0 && !result_.out.empty()) result_.first_output = clock_.now() - begin_;
    drain(err_, result_.err);
  }

  static void drain(Fd& fd, std::string& text) {
    std::array<char, 1U << 16> piece{};
    while (fd.get() >= 0) {
      const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        fd.close();
        return;
      }
      text.append(piece.data(), static_cast<std::size_t>(got));
    }
  }

  void watch_time() {
    if (options_.time_max != Nanos{0} && result_.wall > options_.time_max && !ended_) {
      result_.timed_out = true;
      end_child();
    }
    if (ended_ && result_.wall - *ended_ > grace_time) ::kill(-child_, SIGKILL);
    if (options_.tick && begin_ + result_.wall - ticked_ >= tick_time) {
      ticked_ = begin_ + result_.wall;
      options_.tick();
    }
  }

  void end_child() {
    if (ended_) return;
    ended_ = clock_.now() - begin_;
    ::kill(-child_, SIGTERM);
  }

  pid_t child_;
  Fd out_, err_;
  int arrived_;
  const Clock& clock_;
  const CaptureOptions& options_;
  Nanos begin_, ticked_;
  std::optional<Nanos> ended_;  // when SIGTERM was sent
  Captured result_;
};

}  // namespace

Result<std::string> find_program(std::string_view name, std::string_view search_path) {
  if (name.empty()) return fail(Code::not_found, "the name of the program is empty");
  if (name.find('/') != std::string_view::npos) {
    std::string path(name);
    if (auto ok = check_executable(path); !ok) return fail(ok.error());
    return path;
  }
  Error best{Code::not_found, fmt::format("{}: there is no such program on the PATH", name)};
  while (true) {
    const auto colon = search_path.find(':');
    const auto folder = search_path.substr(0, colon);
    std::string path = folder.empty() ? "./" : std::string(folder) + "/";
    path += name;
    if (auto ok = check_executable(path); ok) {
      return path;
    } else if (ok.error().code == Code::rejected && best.code == Code::not_found) {
      best = ok.error();
    }
    if (colon == std::string_view::npos) break;
    search_path.remove_prefix(colon + 1);
  }
  return fail(best);
}

int program_exit_code(const Error& error) {
  return error.code == Code::not_found ? exit_not_found : exit_not_executable;
}

Result<int> run_program(const Command& command) {
  const BlockedSignals signals;
  const auto child = start(command, signals, {});
  if (!child) return fail(child.error());
  return wait_and_forward(*child, signals.set());
}

Result<Captured> run_captured(const Command& command, const Clock& clock, const CaptureOptions& options) {
  auto out = Pipe::open();
  auto err = Pipe::open();
  if (!out || !err) return fail(!out ? out.error() : err.error());
  const BlockedSignals signals;
  const Fd arrived(::signalfd(-1, &signals.set(), SFD_CLOEXEC | SFD_NONBLOCK));
  if (arrived.get() < 0) return fail(Code::device_failed, "signalfd: {}", strerror(errno));
  const Nanos begin = clock.now();
  const auto child = start(command, signals, {out->write.get(), err->write.get(), true});
  if (!child) return fail(child.error());
  out->write.close();
  err->write.close();
  return CaptureLoop(*child, std::move(out->read), std::move(err->read), arrived.get(), clock, options, begin).run();
}

Result<ChildProcess> ChildProcess::start(const Command& command) {
  const BlockedSignals signals;
  const auto child = artesian::start(command, signals, {.own_group = true});
  if (!child) return fail(child.error());
  return ChildProcess(*child);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), exit_code_(other.exit_code_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || exit_code_) return;
  kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<int> ChildProcess::end_descriptor() const {
  const long fd = ::syscall(SYS_pidfd_open, pid_, 0);
  if (fd < 0) return fail(Code::device_failed, "process {}: cannot be watched: {}", pid_, strerror(errno));
  return static_cast<int>(fd);
}

std::optional<int> ChildProcess::exit_code() {
  int code = 0;
  if (!exit_code_ && reap(pid_, code, false)) exit_code_ = code;
  return exit_code_;
}

void ChildProcess::ask_to_end() const {
  if (!exit_code_) ::kill(pid_, SIGTERM);
}

void ChildProcess::kill() const {
  if (!exit_code_) ::kill(pid_, SIGKILL);
}

Error replace_process(const Command& command) {
  const ExecBlock block(command);
  block.exec(command.path);
  return start_error(command.path, errno);
}

Result<std::string> own_executable() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return fail(Code::device_failed, "/proc/self/exe: {}", strerror(errno));
  return std::string(path.data(), static_cast<std::size_t>(length));
}

bool process_exists(int pid) {
  return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
}

int own_pid() {
  return ::getpid();
}

void pause_for_seconds(unsigned seconds) {
  ::sleep(seconds);
}

}  // namespace artesian
