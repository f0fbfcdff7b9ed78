#include "nand/measures.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/units.h"

namespace artesian::nand {
namespace {

constexpr std::uint64_t small_read = 4096, large_read = 128 * KiB;

double mean_read_us(const Profile& p) {
  double sum = 0;
  for (const double us : p.read_us) sum += us;
  return sum / static_cast<double>(p.read_us.size()) * (1 + p.retries_fresh);
}

double move_us(const Profile& p, std::uint64_t bytes) {
  return p.channel_overhead_us + static_cast<double>(bytes) * (1 + p.parity_share) / p.channel_mb;
}

}  // namespace

double Ceiling::least() const {
  return std::min({link, channels, dies, controller});
}

std::string_view Ceiling::limit() const {
  const double value = least();
  return value == link ? "link" : value == channels ? "channels" : value == dies ? "dies" : "controller";
}

Ceiling read_ceiling(const Profile& p, std::uint64_t bytes) {
  const double pages = std::ceil(static_cast<double>(bytes) / static_cast<double>(p.page_bytes));
  const double move = move_us(p, std::min(bytes, p.page_bytes));
  const double held = mean_read_us(p) + (p.cache_read ? 0 : move);
  const double lanes = static_cast<double>(p.dies() * p.read_lanes_per_die);
  return {.link = p.link_mb * 1e6 / static_cast<double>(bytes),
          .channels = static_cast<double>(p.channels) * 1e6 / (pages * move),
          .dies = lanes * 1e6 / (pages * held),
          .controller = p.iops_max};
}

Ceiling write_ceiling(const Profile& p, std::uint64_t bytes) {
  const bool slc = p.pslc_superblocks > 0;
  const double pages = static_cast<double>(p.planes_per_die * (slc ? 1 : p.bits_per_cell));
  const double load = pages * move_us(p, p.page_bytes);
  const double program = slc ? p.slc_program_us : p.program_us;
  const double held = p.cache_program ? std::max(program, load) : program + load;
  const double per_program = pages * static_cast<double>(p.page_bytes) / static_cast<double>(bytes);
  return {.link = p.link_mb * 1e6 / static_cast<double>(bytes),
          .channels = static_cast<double>(p.channels) * 1e6 / load * per_program,
          .dies = static_cast<double>(p.dies()) * 1e6 / held * per_program,
          .controller = p.iops_max};
}

Prepared prepared_drive(const Profile& profile) {
  // Enough that every lane has many pages, and little enough to be filled in no time.
  const std::uint64_t pages = profile.dies() * profile.planes_per_die * profile.bits_per_cell * profile.page_bytes;
  const std::uint64_t units_max = std::uint64_t{1} << 22;
  const double blocks = static_cast<double>(profile.blocks_per_plane);
  const double capacity =
      std::min({static_cast<double>(profile.capacity_bytes), static_cast<double>(units_max * profile.map_unit_bytes),
                std::max(blocks, 64.0) * 8 * static_cast<double>(pages)});
  Prepared prepared{.drive = std::make_unique<Drive>(with_capacity(profile, static_cast<std::uint64_t>(capacity)))};
  Drive& drive = *prepared.drive;
  // Whole superblocks, written as if they had been there for long: in native mode, on flash.
  const std::uint64_t superblock = drive.layout().native.grains;
  const std::uint64_t want = std::max<std::uint64_t>(drive.layout().logical_units / 2 / superblock, 1) * superblock;
  drive.fill_native(std::min<std::uint64_t>(want, drive.layout().logical_units));
  prepared.bytes = std::min<std::uint64_t>(want, drive.layout().logical_units) * drive.layout().unit_bytes;
  drive.reset_counters();
  return prepared;
}

FlowResult run_reads(const Profile& profile, std::uint64_t bytes, Access access, std::uint32_t depth,
                     std::uint64_t requests) {
  Prepared prepared = prepared_drive(profile);
  const Flow flow{
      .bytes = bytes, .access = access, .length = prepared.bytes, .depth = depth, .requests = requests + depth};
  return run_flows(*prepared.drive, {flow}, INT64_MAX, depth)[0];
}

namespace {

// What comes in a window of time while the depth is kept, so that neither start nor end counts; about `count` requests.
FlowResult run_in_window(const Profile& profile, Flow flow, double ceiling, double count) {
  Prepared prepared = prepared_drive(profile);
  flow.length = prepared.bytes;
  FlowRunner runner(*prepared.drive, {flow});
  const auto window = static_cast<Time>(count / ceiling * 1e9);
  const Time start = prepared.drive->now() + window / 4;
  runner.run_until(start);
  runner.take_results();
  runner.run_until(start + window);
  FlowResult result = std::move(runner.take_results()[0]);
  result.first = start;
  result.last = start + window;
  return result;
}

double deep_iops(const Profile& profile) {
  const auto depth = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(64 * profile.dies(), 512, 32768));
  const Flow flow{.bytes = small_read, .depth = depth};
  return run_in_window(profile, flow, read_ceiling(profile, small_read).least(), std::max(depth * 8.0, 100e3)).iops();
}

double read_bandwidth(const Profile& profile) {
  const auto depth = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(8 * profile.dies(), 64, 1024));
  const Flow flow{.bytes = large_read, .access = Access::sequential, .depth = depth};
  return run_in_window(profile, flow, read_ceiling(profile, large_read).least(), depth * 20.0).bytes_per_second() *
         1e-6;
}

double write_bandwidth(const Profile& profile) {
  Drive drive(with_capacity(profile, 48 * GiB));
  const Profile& part = drive.profile();
  std::uint64_t bytes = std::min<std::uint64_t>(part.capacity_bytes / 3, 8 * GiB);
  if (part.pslc_superblocks > 0) {
    bytes = std::min(bytes, part.pslc_superblocks * part.superblock_bytes() / part.bits_per_cell * 3 / 4);
  }
  // Until the buffer is full it takes all at the speed of the link; that is not counted.
  const std::uint64_t warm_up = std::min(2 * profile.buffer_bytes, bytes / 2) / large_read;
  const Flow flow{.reads = 0,
                  .bytes = large_read,
                  .access = Access::sequential,
                  .depth = 256,
                  .io_class = IoClass::write,
                  .requests = bytes / large_read};
  return run_flows(drive, {flow}, INT64_MAX, warm_up)[0].bytes_per_second() * 1e-6;
}

// What flash holds of data that shrink to half, beside what it holds of data that do not shrink.
double capacity_gain(const Profile& profile) {
  Drive drive(with_capacity(profile, 8 * GiB));
  const std::uint64_t bytes = std::min<std::uint64_t>(drive.profile().capacity_bytes / 2, 2 * GiB);
  run_flows(drive,
            {{.reads = 0,
              .bytes = large_read,
              .access = Access::sequential,
              .depth = 64,
              .io_class = IoClass::write,
              .compress = 2,
              .requests = bytes / large_read}},
            INT64_MAX);
  const DriveCounters c = drive.counters();
  const std::uint64_t kept = c.appended_bytes() - c.programmed_bytes[static_cast<std::size_t>(Stream::fold)];
  return static_cast<double>(c.host_written_bytes) / static_cast<double>(kept);
}

}  // namespace

Result<double> measure(const Profile& profile, std::string_view what) {
  constexpr std::string_view at_depth = "read_iops_4k_depth";
  if (what == "read_us_4k") return run_reads(profile, small_read, Access::random, 1, 20000).reads.mean() * 1e-3;
  if (what == "read_iops_4k") return deep_iops(profile);
  if (what == "read_mb_128k") return read_bandwidth(profile);
  if (what == "write_mb_128k") return write_bandwidth(profile);
  if (what == "tbw") return profile.pe_cycles * static_cast<double>(profile.physical_bytes()) * 1e-12;
  if (what == "capacity_gain") return capacity_gain(profile);
  if (what.starts_with(at_depth)) {
    std::uint32_t depth = 0;
    const std::string_view number = what.substr(at_depth.size());
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), depth);
    if (parsed.ec == std::errc() && depth > 0) {
      return run_reads(profile, small_read, Access::random, depth, 200000).iops();
    }
  }
  return fail(Code::not_found, "profile {}: there is no measure {}", profile.name, what);
}

}  // namespace artesian::nand
