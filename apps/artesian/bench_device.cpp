// artesian bench device: bandwidth and latency of a drive by request size and depth.
#include <cstdio>
#include <memory>

#include "bench/device_measure.h"
#include "commands.h"
#include "platform/clock.h"
#include "progress.h"
#include "version.h"

namespace artesian::cli {
namespace {

constexpr std::uint32_t depth_max = 4096;

struct DeviceCommand {
  bench::DeviceBenchOptions bench;
  bool small_pages = false, no_register = false, json = false;
};

Result<int> bench_device(const DeviceCommand& command) {
  bench::DeviceBenchOptions options = command.bench;
  options.huge_pages = !command.small_pages;
  options.registered = !command.no_register;
  options.version = version();
  options.report = [](std::string_view sentence) { fmt::print(stderr, "artesian: {}\n", sentence); };
  const SteadyClock clock;
  auto report = [&] {
    ProgressLine line;
    options.progress = [&line](double part, std::string_view what) { line.show(part, what); };
    return bench::measure_device(options, clock);
  }();
  if (!report) return fail(report.error());
  fmt::print("{}{}", command.json ? bench::device_json(*report) : bench::device_text(*report),
             command.json ? "\n" : "");
  return exit_ok;
}

}  // namespace

Action setup_bench_device(CLI::App& command, const Context&) {
  auto options = std::make_shared<DeviceCommand>();
  bench::DeviceBenchOptions& bench = options->bench;
  command
      .add_option("PATH", bench.path,
                  "A file or block device, which is only read; or a folder or a new name, for a scratch file there")
      ->type_name("")
      ->required();
  add_size(command, "--size", bench.scratch_bytes, "Of the scratch file, which is gone in the end; 1G if not given");
  command.add_flag("--overwrite", bench.overwrite, "Write to the file or block device as well: what it holds is lost");
  command.add_option("--seconds", bench.seconds, "For all points together, without making the scratch file")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str();
  add_sizes(command, "--request", bench.request_bytes, "Bytes of a request, again for more; else from 4K to 4M");
  command.add_option("--depth", bench.depths, "Requests outstanding, again for more; else from 1 to 64")
      ->check(CLI::Range(1U, depth_max))
      ->allow_extra_args(false);
  command
      .add_option_function<std::string>(
          "--engine",
          [&bench](const std::string& name) {
            bench.backend = name == "threads" ? IoBackend::threads : IoBackend::uring;
          },
          "io_uring or threads; else the first that works")
      ->check(CLI::IsMember({"io_uring", "threads"}));
  command.add_flag("--small-pages", options->small_pages, "Buffers of small pages, as most programs have them");
  command.add_flag("--no-register", options->no_register, "Buffers not registered with the kernel");
  command.add_flag("--json", options->json, "One JSON object");
  set_examples(command, {"artesian bench device /mnt/models --size 4G", "artesian bench device model.gguf --seconds 5",
                         "artesian bench device model.gguf --request 512K --request 1M --depth 16 --json",
                         "artesian bench device /dev/nvme1n1 --overwrite"});
  return [options] { return bench_device(*options); };
}

}  // namespace artesian::cli
