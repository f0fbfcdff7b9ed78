// artesian inspect: what a model is made of, what streaming it costs, and what budgets should give on the device that
// holds it.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/units.h"
#include "commands.h"
#include "device/file_device.h"
#include "device/sweep.h"
#include "platform/clock.h"
#include "progress.h"
#include "stream/file_source.h"
#include "stream/inspect.h"

namespace artesian::cli {
namespace {

struct InspectCommand {
  std::string path;
  std::vector<std::uint64_t> budgets;
  bool json = false, no_measure = false;
};

// Bytes a second of the device, read as the door reads, from the largest shard: about a second.
Result<double> measure_bandwidth(const GgufModel& model) {
  const SteadyClock clock;
  FileDeviceOptions options;
  options.paths = model.paths;
  options.report = [](std::string_view sentence) { fmt::print(stderr, "artesian: {}\n", sentence); };
  const auto device = open_file_device(options, clock);
  if (!device) return fail(device.error());
  SweepOptions sweep;
  const auto& sizes = (*device)->facts().file_bytes;
  sweep.file = static_cast<FileIndex>(std::ranges::max_element(sizes) - sizes.begin());
  sweep.request_bytes = {64 * KiB, 512 * KiB, 2 * MiB};
  sweep.depths = {16, 32};
  sweep.time_per_point = std::chrono::milliseconds(150);
  ProgressLine line;
  line.show(0, "measuring the device");
  sweep.progress = [&line](const SweepPoint& point, std::size_t done, std::size_t all) {
    line.show(static_cast<double>(done) / static_cast<double>(all),
              "measuring the device: " + format_rate(point.bytes_per_second));
  };
  const auto points = sweep_device(**device, clock, sweep);
  if (!points) return fail(points.error());
  return best_read_bandwidth(*points);
}

Result<int> inspect(const InspectCommand& command) {
  const auto model = open_model_files(command.path);
  if (!model) return fail(model.error());
  InspectOptions options{.bandwidth = 0, .budgets = command.budgets};
  if (!command.no_measure) {
    const auto bandwidth = measure_bandwidth(*model);
    if (bandwidth) {
      options.bandwidth = *bandwidth;
    } else {  // what the file says is worth showing all the same
      fmt::print(stderr, "artesian: inspect: the device was not measured: {}\n", bandwidth.error().message);
    }
  }
  const InspectReport report = inspect_model(*model, options);
  fmt::print("{}{}", command.json ? to_json_text(report) : to_text(report), command.json ? "\n" : "");
  return exit_ok;
}

}  // namespace

Action setup_inspect(CLI::App& command, const Context&) {
  auto options = std::make_shared<InspectCommand>();
  command.add_option("MODEL", options->path, "A GGUF file, or the first of its shards")->type_name("")->required();
  add_sizes(command, "--memory", options->budgets, "A budget to tell about, again for more; else some that suit");
  command.add_flag("--no-measure", options->no_measure, "Do not read from the device for a second to know its speed");
  command.add_flag("--json", options->json, "One JSON object");
  set_examples(command,
               {"artesian inspect model.gguf", "artesian inspect model-00001-of-00004.gguf --memory 8G --memory 12G",
                "artesian inspect model.gguf --no-measure --json"});
  return [options] { return inspect(*options); };
}

}  // namespace artesian::cli
