#include "bench/weights_runner.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/units.h"
#include "bench/texts.h"

namespace artesian::bench {

namespace {

constexpr int attempts_max = 6;
constexpr int exit_killed = 137;
constexpr std::uint32_t context_tokens = 1024;

// The beginning of the prompt that has so many tokens in SmolLM2's vocabulary; others differ by some percent.
std::string prompt_of(std::uint32_t tokens) {
  constexpr std::size_t short_bytes = 83, usual_bytes = 1185, long_bytes = 2385;
  const std::size_t bytes = tokens <= 16 ? short_bytes : tokens <= 256 ? usual_bytes : long_bytes;
  return std::string(prompt_text.substr(0, bytes));
}

Command shell_command(const std::string& shell, std::string_view call, std::vector<std::string> arguments) {
  std::vector<std::string> line = {"bash", "-c", fmt::format("{}\n{}", limit_script, call), "artesian-limit"};
  line.insert(line.end(), std::make_move_iterator(arguments.begin()), std::make_move_iterator(arguments.end()));
  return {shell, std::move(line), {}};
}

std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const auto start = text.rfind('\n');
  return std::string(start == std::string_view::npos ? text : text.substr(start + 1));
}

// One is the beginning of the other, and they are not equal: on a busy machine llama-completion, with or without us,
// sometimes loses the end of what it prints.
bool cut_short(std::string_view one, std::string_view other) {
  return one != other && (one.starts_with(other) || other.starts_with(one));
}

Status check_door(const Arm& arm, const Run& run) {
  const StatsSnapshot& stats = *run.stats;
  const std::string_view wanted = arm.streams() ? "active" : "aside";
  if (stats.state != wanted) {
    return fail(Code::rejected, "the door is {} and not {}{}{}", stats.state, wanted, stats.reason.empty() ? "" : ": ",
                stats.reason);
  }
  // Warm-up and the last token may be counted by one side alone; more means that what is divided does not belong
  // together.
  const std::uint64_t engine = run.timings.decode_tokens, door = stats.decode.tokens;
  if (arm.streams() && arm.tokens > 1 && std::max(engine, door) - std::min(engine, door) > 2) {
    return fail(Code::corrupt, "the engine decoded {} tokens, the door counted {}", engine, door);
  }
  return {};
}

class Measuring {
 public:
  Measuring(const RunnerSettings& settings, const RunnerHooks& hooks) : settings_(settings), hooks_(hooks) {}

  Result<Measurements> run(std::span<const WeightsCase* const> cases) {
    for (const WeightsCase* info : cases) collect(*info);
    const std::size_t total = arms_.size() * settings_.repeat;
    std::size_t number = 0;
    for (std::uint32_t round = 0; round < settings_.repeat; ++round) {
      if (bandwidth_wanted_ && !arms_.empty()) {
        if (hooks_.progress) hooks_.progress(number, total, "bandwidth of the device");
        const auto bandwidth = hooks_.bandwidth();
        if (!bandwidth) return fail(bandwidth.error());
        measured_.bandwidth = std::max(measured_.bandwidth, *bandwidth);
      }
      for (const Arm& arm : arms_) {
        ++number;
        ArmRuns& runs = measured_.arms[arm];
        if (!runs.failure.empty()) continue;
        if (hooks_.progress) hooks_.progress(number, total, arm_text(settings_, arm));
        auto done = checked_run(arm);
        if (interrupted_) return fail(Code::retry, "interrupted");
        if (done) {
          runs.runs.push_back(std::move(*done));
        } else {
          runs.failure = arm_text(settings_, arm) + ": " + done.error().message;
          runs.text_differs = text_differs_;
          text_differs_ = false;
        }
      }
    }
    return std::move(measured_);
  }

 private:
  // In the order in which they are needed, each once; those that need a limit where none can be had fail at once.
  void collect(const WeightsCase& info) {
    const std::vector<Arm> wanted = info.arms(info, settings_.tokens);
    const bool limited = std::ranges::any_of(wanted, [](const Arm& arm) { return arm.limit != Limit::none; });
    if (limited && !settings_.no_limit_reason.empty()) {
      for (const Arm& arm : wanted) {
        if (arm.limit == Limit::none) continue;
        measured_.arms[arm].failure =
            fmt::format("skipped: no memory limit can be set here: {}", settings_.no_limit_reason);
      }
      return;
    }
    bandwidth_wanted_ = bandwidth_wanted_ || info.bandwidth;
    for (const Arm& arm : wanted) {
      if (std::ranges::find(arms_, arm) == arms_.end()) arms_.push_back(arm);
    }
  }

  // One run whose text is that of its reference. A pair in which one lost its end is run again, whichever lost it.
  Result<Run> checked_run(const Arm& arm) {
    const Arm reference = reference_of(arm);
    if (arm != reference && std::ranges::find(arms_, reference) == arms_.end()) return single_run(arm);
    const auto failed = measured_.arms.find(reference);
    if (arm != reference && failed != measured_.arms.end() && !failed->second.failure.empty()) {
      return fail(Code::rejected, "there is no text to compare with: {}", failed->second.failure);
    }
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
      auto run = single_run(arm);
      if (!run) return run;
      auto [known, fresh] = texts_.try_emplace(reference, run->text);
      if (fresh || known->second == run->text) return run;
      if (!cut_short(known->second, run->text)) {
        text_differs_ = true;
        return fail(Code::corrupt, "its text differs from that of the engine in memory ({} against {} bytes)",
                    run->text.size(), known->second.size());
      }
      if (known->second.size() > run->text.size()) continue;
      if (auto renewed = arm == reference ? std::move(run) : single_run(reference); !renewed)
        return renewed;
      else if (renewed->text.size() > known->second.size())
        known->second = renewed->text;
    }
    return fail(Code::retry, "the engine lost the end of its text {} times", attempts_max);
  }

  // One run that says how long it took: that, too, llama-completion sometimes loses at its end, with or without us.
  Result<Run> single_run(const Arm& arm) {
    for (int attempt = 1;; ++attempt) {
      const auto captured = launch(arm);
      if (!captured) return fail(captured.error());
      const auto timings = parse_timings(captured->err);
      if (timings) return run_of(arm, *captured, *timings);
      if (attempt == attempts_max) return fail(timings.error());
    }
  }

  Result<Captured> launch(const Arm& arm) {
    if (interrupted_) return fail(Code::retry, "interrupted");
    for (const std::string& file : settings_.models.at(arm.model)) hooks_.forget_cached(file);
    auto captured = hooks_.launch(command_of(settings_, arm));
    if (!captured) return captured;
    interrupted_ = interrupted_ || captured->interrupted != 0;
    if (interrupted_) return fail(Code::retry, "interrupted");
    if (captured->timed_out) {
      return fail(Code::rejected, "it took more than {:.0f} s", std::chrono::duration<double>(captured->wall).count());
    }
    if (captured->exit_code != 0) {
      return fail(Code::rejected, "it ended with exit code {}{}: {}", captured->exit_code,
                  captured->exit_code == exit_killed ? " (killed, perhaps out of memory)" : "",
                  last_line(captured->err));
    }
    return captured;
  }

  Result<Run> run_of(const Arm& arm, const Captured& captured, const EngineTimings& timings) const {
    Run run;
    run.timings = timings;
    run.text = captured.out;
    if (captured.first_output) {
      run.first_token_seconds = std::chrono::duration<double>(*captured.first_output).count();
    }
    if (!arm.opens_door()) return run;
    auto stats = read_stats_file(settings_.stats_path);
    if (!stats) return fail(stats.error().code, "what the door did is not known: {}", stats.error().message);
    run.stats = add_up(*stats);
    if (auto good = check_door(arm, run); !good) return fail(good.error());
    return run;
  }

  const RunnerSettings& settings_;
  const RunnerHooks& hooks_;
  std::vector<Arm> arms_;
  std::map<Arm, std::string> texts_;  // by reference
  Measurements measured_;
  bool bandwidth_wanted_ = false;
  bool interrupted_ = false;
  bool text_differs_ = false;  // the last run failed by that
};

}  // namespace

Command command_of(const RunnerSettings& settings, const Arm& arm) {
  std::vector<std::string> line;
  if (arm.opens_door()) {
    line = {settings.artesian, "run", "--quiet", "--stats-file", settings.stats_path};
    if (arm.way == Way::door_on) line.insert(line.end(), {"--mode", "on"});
    line.emplace_back("--");
  }
  line.insert(line.end(), {settings.engine, "-m", settings.models.at(arm.model).front(), "-p", prompt_of(arm.prompt),
                           "-n", std::to_string(arm.tokens), "-c", std::to_string(context_tokens), "-no-cnv",
                           "--no-display-prompt", "--ignore-eos", "--temp", "0.8", "--seed", "1"});
  if (settings.threads != 0) line.insert(line.end(), {"-t", std::to_string(settings.threads)});
  if (arm.way == Way::plain) line.emplace_back("--no-repack");
  if (arm.limit == Limit::none) {
    std::string path = line.front();
    return {std::move(path), std::move(line), {}};
  }
  line.insert(line.begin(), {std::to_string(settings.limits.at(arm.limit)), "--"});
  return shell_command(settings.shell, "memory_limit_exec \"$@\"", std::move(line));
}

Result<std::string> limit_reason(const std::string& shell,
                                 const std::function<Result<Captured>(const Command&)>& launch) {
  const auto captured = launch(shell_command(shell, "memory_limit_reason", {}));
  if (!captured) return fail(captured.error());
  std::string reason = last_line(captured->out);
  if (reason.empty() && captured->exit_code != 0) reason = last_line(captured->err);
  return reason;
}

Result<Measurements> measure(const RunnerSettings& settings, const RunnerHooks& hooks,
                             std::span<const WeightsCase* const> cases) {
  return Measuring(settings, hooks).run(cases);
}

std::string arm_text(const RunnerSettings& settings, const Arm& arm) {
  std::string way;
  switch (arm.way) {
    case Way::plain:
      way = arm.limit == Limit::none ? "llama.cpp --no-repack" : "llama.cpp, mmap";
      break;
    case Way::stock:
      way = "llama.cpp";
      break;
    case Way::door:
      way = "artesian run";
      break;
    case Way::door_on:
      way = "artesian run --mode on";
      break;
  }
  const std::string limit = arm.limit == Limit::none ? "no limit" : format_bytes(settings.limits.at(arm.limit));
  return fmt::format("{}, {}, {}, {} + {} tokens", settings.names.at(arm.model), limit, way, arm.prompt, arm.tokens);
}

}  // namespace artesian::bench
