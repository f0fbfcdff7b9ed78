#include "bench/device_measure.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "platform/file.h"

namespace artesian::bench {

namespace {

namespace fs = std::filesystem;

struct Place {
  std::string folder;  // of a scratch file; empty: the file itself
};

Result<Place> place_of(const DeviceBenchOptions& options) {
  std::error_code error;
  const fs::file_status status = fs::status(options.path, error);
  if (fs::is_directory(status)) return Place{options.path};
  if (fs::is_regular_file(status) || fs::is_block_file(status)) return Place{};
  if (fs::exists(status))
    return fail(Code::invalid, "{}: is neither a file, a folder nor a block device", options.path);
  if (status.type() != fs::file_type::not_found) return fail(Code::rejected, "{}: {}", options.path, error.message());
  if (options.overwrite) return fail(Code::not_found, "{}: --overwrite: there is no such file", options.path);
  const fs::path folder = fs::path(options.path).parent_path();
  return Place{folder.empty() ? "." : folder.string()};
}

// A file in which every block was written.
Result<std::unique_ptr<Device>> open_scratch(const std::string& folder, const DeviceBenchOptions& options,
                                             FileDeviceOptions device_options, const Clock& clock) {
  const std::uint64_t bytes = align_up(options.scratch_bytes, 4 * KiB);
  const auto file = File::open_unnamed(folder);
  if (!file) return fail(file.error());
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (!error && space.available < bytes) {
    return fail(Code::rejected, "{}: no space for a scratch file of {}, {} are free; --size takes less", folder,
                format_size(bytes), format_size(space.available));
  }
  if (auto allocated = file->allocate(bytes); !allocated) return fail(allocated.error());
  device_options.write = true;
  const OpenFile open{file->fd(), file->path()};
  auto device = open_file_device_fds(std::span(&open, 1), device_options, clock);
  if (!device) return device;
  const auto filled = fill_file(**device, 0, 1, [&](double part) {
    if (options.progress) options.progress(part, "writing the scratch file");
  });
  if (!filled) return fail(filled.error());
  return device;
}

std::string_view op_name(IoOp op) {
  return op == IoOp::read ? "read" : "write";
}

SweepOptions sweep_options(const DeviceBenchOptions& options, bool write) {
  SweepOptions sweep;
  sweep.write = write;
  if (!options.request_bytes.empty()) sweep.request_bytes = options.request_bytes;
  if (!options.depths.empty()) sweep.depths = options.depths;
  sweep.huge_pages = options.huge_pages;
  sweep.registered = options.registered;
  const auto points = static_cast<double>(sweep.request_bytes.size() * sweep.depths.size() * (write ? 2 : 1));
  sweep.time_per_point = Nanos{static_cast<std::int64_t>(options.seconds * 1e9 / points)};
  sweep.progress = [&options](const SweepPoint& point, std::size_t done, std::size_t all) {
    if (!options.progress) return;
    options.progress(static_cast<double>(done) / static_cast<double>(all),
                     fmt::format("{} of {} at depth {}: {}", op_name(point.op), format_size(point.request_bytes),
                                 point.depth, format_rate(point.bytes_per_second)));
  };
  return sweep;
}

std::string table_text(std::span<const SweepPoint> points, IoOp op) {
  std::string text = fmt::format("\n{:<9}{:>11}{:>7}{:>13}{:>10}{:>13}{:>12}\n", op_name(op), "request", "depth",
                                 "bandwidth", "per s", "median us", "p99 us");
  std::uint64_t last = 0;
  for (const SweepPoint& point : points) {
    if (point.op != op) continue;
    text += fmt::format("{:<9}{:>11}{:>7}{:>13}{:>10.0f}{:>13.1f}{:>12.1f}\n", "",
                        point.request_bytes == last ? "" : format_size(point.request_bytes), point.depth,
                        format_rate(point.bytes_per_second), point.iops, point.p50_us, point.p99_us);
    last = point.request_bytes;
  }
  if (const SweepPoint* best = best_point(points, op)) {
    text += fmt::format("best {:<4}{:>11}{:>7}{:>13}\n", op_name(op), format_size(best->request_bytes), best->depth,
                        format_rate(best->bytes_per_second));
  }
  return text;
}

nlohmann::json point_json(const SweepPoint& point) {
  return {{"op", op_name(point.op)},
          {"request_bytes", point.request_bytes},
          {"depth", point.depth},
          {"bytes_per_second", point.bytes_per_second},
          {"requests_per_second", point.iops},
          {"latency_us_p50", point.p50_us},
          {"latency_us_p99", point.p99_us}};
}

}  // namespace

Result<DeviceReport> measure_device(const DeviceBenchOptions& options, const Clock& clock) {
  const auto place = place_of(options);
  if (!place) return fail(place.error());
  const bool scratch = !place->folder.empty();
  const SweepOptions sweep = sweep_options(options, scratch || options.overwrite);
  FileDeviceOptions device_options;
  device_options.paths = {options.path};
  device_options.write = options.overwrite;
  device_options.backend = options.backend;
  device_options.queue_depth_max = std::ranges::max(sweep.depths);
  device_options.thread_count = device_options.queue_depth_max;
  device_options.report = options.report;
  auto device =
      scratch ? open_scratch(place->folder, options, device_options, clock) : open_file_device(device_options, clock);
  if (!device) return fail(device.error());
  auto points = sweep_device(**device, clock, sweep);
  if (!points) return fail(points.error());
  const DeviceFacts& facts = (*device)->facts();
  return DeviceReport{.path = scratch ? place->folder : options.path,
                      .scratch = scratch,
                      .file_bytes = facts.file_bytes[0],
                      .engine = facts.engine,
                      .direct = facts.direct,
                      .huge_pages = options.huge_pages,
                      .registered = points->front().registered,
                      .placement = facts.placement,
                      .version = options.version,
                      .machine = machine_facts(),
                      .storage = storage_of(scratch ? place->folder : options.path),
                      .points = std::move(*points)};
}

const SweepPoint* best_point(std::span<const SweepPoint> points, IoOp op) {
  const SweepPoint* best = nullptr;
  for (const SweepPoint& point : points) {
    if (point.op == op && (best == nullptr || point.bytes_per_second > best->bytes_per_second)) best = &point;
  }
  return best;
}

std::string device_text(const DeviceReport& report) {
  std::string text = fmt::format("{}{}: {}\n", report.path,
                                 report.scratch ? fmt::format(", scratch file of {}", format_size(report.file_bytes))
                                                : fmt::format(", {}", format_size(report.file_bytes)),
                                 to_text(report.storage));
  text += fmt::format("{}, {}; {} pages, {}; {}\n", report.engine,
                      report.direct ? "direct" : "through the page cache: its speed is in these figures",
                      report.huge_pages ? "large" : "small", report.registered ? "registered" : "not registered",
                      report.placement);
  text += fmt::format("{}; artesian {}\n", to_text(report.machine), report.version);
  for (const IoOp op : {IoOp::read, IoOp::write}) {
    if (best_point(report.points, op) != nullptr) text += table_text(report.points, op);
  }
  return text;
}

std::string device_json(const DeviceReport& report) {
  nlohmann::json points = nlohmann::json::array();
  for (const SweepPoint& point : report.points) points.push_back(point_json(point));
  nlohmann::json out = {{"path", report.path},
                        {"scratch", report.scratch},
                        {"file_bytes", report.file_bytes},
                        {"engine", report.engine},
                        {"direct", report.direct},
                        {"huge_pages", report.huge_pages},
                        {"registered", report.registered},
                        {"placement", report.placement},
                        {"version", report.version},
                        {"machine",
                         {{"processor", report.machine.processor},
                          {"cores", report.machine.cores},
                          {"memory_bytes", report.machine.memory_bytes},
                          {"kernel", report.machine.kernel}}},
                        {"storage",
                         {{"file_system", report.storage.file_system},
                          {"device", report.storage.device},
                          {"model", report.storage.model}}},
                        {"points", std::move(points)}};
  for (const IoOp op : {IoOp::read, IoOp::write}) {
    if (const SweepPoint* best = best_point(report.points, op)) {
      out[fmt::format("best_{}", op_name(op))] = point_json(*best);
    }
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace artesian::bench
