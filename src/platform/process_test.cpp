#include "platform/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "platform/clock.h"

namespace artesian {
namespace {

class Process : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("artesian-process-{}-{}", ::getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text, mode_t mode) {
    const std::string path = folder_.string() + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  static Result<int> shell(const std::string& script) { return run_program({"/bin/sh", {"sh", "-c", script}, {}}); }

  std::filesystem::path folder_;
};

TEST_F(Process, FindsOnThePathInOrder) {
  const auto path = write("tool", "#!/bin/sh\n", 0755);
  EXPECT_EQ(find_program("tool", "/nonexistent:" + folder_.string()).value(), path);
  EXPECT_EQ(find_program(path, "").value(), path);
  EXPECT_EQ(find_program("sh", "/bin").value(), "/bin/sh");
}

TEST_F(Process, SaysWhatIsNotThere) {
  const auto missing = find_program("no-such-tool", "/bin:" + folder_.string());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "no-such-tool: there is no such program on the PATH");
  EXPECT_EQ(program_exit_code(missing.error()), 127);
  EXPECT_EQ(program_exit_code(find_program("/nonexistent/tool", "").error()), 127);
  EXPECT_EQ(program_exit_code(find_program("", "/bin").error()), 127);
}

TEST_F(Process, SaysWhatIsNotExecutable) {
  const auto path = write("text", "hello\n", 0644);
  const auto found = find_program("text", "/nonexistent:" + folder_.string());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, path + ": is not executable");
  EXPECT_EQ(program_exit_code(found.error()), 126);
  EXPECT_EQ(find_program(folder_.string() + "/", "").error().message,
            folder_.string() + "/: is a folder, not a program");
}

TEST_F(Process, PassesTheExitCodeOn) {
  EXPECT_EQ(shell("exit 0").value(), 0);
  EXPECT_EQ(shell("exit 7").value(), 7);
  EXPECT_EQ(shell("exit 255").value(), 255);
}

TEST_F(Process, PassesTheSignalOnAsShellsDo) {
  EXPECT_EQ(shell("kill -KILL $$").value(), 128 + SIGKILL);
  EXPECT_EQ(shell("kill -TERM $$").value(), 128 + SIGTERM);
}

TEST_F(Process, AddsToTheEnvironmentAndReplaces) {
  ::setenv("ARTESIAN_TEST_OLD", "old", 1);
  const auto run = [](const std::string& script) {
    return run_program(
        {"/bin/sh", {"sh", "-c", script}, {{"ARTESIAN_TEST_OLD", "new"}, {"ARTESIAN_TEST_NEW", "a=b c"}}});
  };
  EXPECT_EQ(
      run("test \"$ARTESIAN_TEST_OLD\" = new && test \"$ARTESIAN_TEST_NEW\" = 'a=b c' && test -n \"$PATH\"").value(),
      0);
  EXPECT_EQ(run("test $(env | grep -c ARTESIAN_TEST_OLD=) = 1").value(), 0);
  ::unsetenv("ARTESIAN_TEST_OLD");
}

TEST_F(Process, SendsSignalsOn) {
  // Who was started in the background may ignore some, and no shell can trap what it was told to ignore.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGWINCH}) ::signal(signal, SIG_DFL);
  // A grandchild signals us; the program must get it, once.
  for (const char* signal : {"INT", "TERM", "HUP", "USR1", "USR2", "QUIT", "WINCH"}) {
    const std::string script = fmt::format(
        "trap 'kill $sleeper; exit 42' {0}; sleep 60 & sleeper=$!; (kill -{0} $PPID); wait; exit 1", signal);
    EXPECT_EQ(shell(script).value(), 42) << signal;
  }
}

TEST_F(Process, RestoresTheSignalMask) {
  sigset_t before, after;
  ::sigprocmask(SIG_SETMASK, nullptr, &before);
  EXPECT_EQ(shell("exit 0").value(), 0);
  ::sigprocmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal) EXPECT_EQ(::sigismember(&before, signal), ::sigismember(&after, signal));
  // and the program starts with ours
  EXPECT_EQ(shell("grep -q 'SigBlk:.0000000000000000' /proc/self/status").value(), 0);
}

TEST_F(Process, ReportsWhatCannotBeStarted) {
  const auto path = write("broken", "#!/nonexistent/interpreter\n", 0755);
  const auto result = run_program({path, {path}, {}});
  ASSERT_FALSE(result);
  EXPECT_EQ(program_exit_code(result.error()), 127);
  EXPECT_EQ(result.error().message, path + ": cannot be started: its interpreter or loader is missing");
  EXPECT_EQ(replace_process({path, {path}, {}}).code, Code::not_found);
}

TEST_F(Process, RunsAScriptWithoutAFirstLine) {
  const auto path = write("script", "exit 9\n", 0755);
  EXPECT_EQ(run_program({path, {path}, {}}).value(), 9);
}

TEST_F(Process, TakesInWhatAProgramPrints) {
  SteadyClock clock;
  const auto run =
      run_captured({"/bin/sh",
                    {"sh", "-c", "printf $WORD; printf err >&2; cat; sleep 0.01; yes x | head -c 300000; exit 3"},
                    {{"WORD", "out"}}},
                   clock, {});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->exit_code, 3);
  EXPECT_EQ(run->out.size(), 300003U);  // more than a pipe holds
  EXPECT_TRUE(run->out.starts_with("outx\n"));
  EXPECT_EQ(run->err, "err");
  ASSERT_TRUE(run->first_output);
  EXPECT_LE(*run->first_output, run->wall);
  EXPECT_FALSE(run->timed_out);
  EXPECT_EQ(run->interrupted, 0);
}

TEST_F(Process, CapturesOfAProgramThatSaysNothing) {
  SteadyClock clock;
  const auto run = run_captured({"/bin/sh", {"sh", "-c", "kill -KILL $$"}, {}}, clock, {});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->exit_code, 137);
  EXPECT_FALSE(run->first_output);
  const auto missing = run_captured({"/nonexistent/tool", {"tool"}, {}}, clock, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
}

TEST_F(Process, EndsACapturedGroupWhenTimeIsUp) {
  SteadyClock clock;
  int ticks = 0;
  const auto run = run_captured({"/bin/sh", {"sh", "-c", "echo up; sleep 60 & wait"}, {}}, clock,
                                {.time_max = std::chrono::milliseconds(250), .tick = [&] { ++ticks; }});
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->timed_out);
  EXPECT_EQ(run->exit_code, 128 + SIGTERM);
  EXPECT_EQ(run->out, "up\n");
  EXPECT_LT(run->wall, std::chrono::seconds(20));
  EXPECT_GT(ticks, 0);
}

TEST_F(Process, ASignalToUsEndsACapturedProgram) {
  SteadyClock clock;
  const auto run = run_captured(
      {"/bin/sh", {"sh", "-c", "trap 'echo cleaned; exit 7' TERM; kill -INT $PPID; sleep 60 & wait"}, {}}, clock, {});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->interrupted, SIGINT);
  EXPECT_EQ(run->exit_code, 7);
  EXPECT_EQ(run->out, "cleaned\n");
}

TEST_F(Process, KnowsProcesses) {
  EXPECT_TRUE(process_exists(own_pid()));
  EXPECT_FALSE(process_exists(0));
  EXPECT_FALSE(process_exists(-1));
  EXPECT_TRUE(own_executable().value().ends_with("platform_test"));
}

TEST_F(Process, TheEndOfAChildIsSeen) {
  auto child = ChildProcess::start({"/bin/sh", {"sh", "-c", "sleep 60"}, {}});
  ASSERT_TRUE(child);
  EXPECT_FALSE(child->exit_code());
  const auto fd = child->end_descriptor();
  ASSERT_TRUE(fd);
  child->kill();
  pollfd wanted{*fd, POLLIN, 0};
  EXPECT_EQ(::poll(&wanted, 1, 10'000), 1);
  EXPECT_EQ(child->exit_code(), 128 + SIGKILL);
  EXPECT_EQ(child->exit_code(), 128 + SIGKILL);
  ::close(*fd);
}

TEST_F(Process, AChildThatCannotBeStartedIsAnError) {
  EXPECT_FALSE(ChildProcess::start({folder_.string() + "/none", {"none"}, {}}));
}

}  // namespace
}  // namespace artesian
