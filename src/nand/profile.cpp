#include "nand/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "base/units.h"

namespace artesian::nand {
namespace {

using Json = nlohmann::json;

template <typename T>
struct Named {
  std::string_view name;
  T value;
};
constexpr std::array collections{Named{"greedy", Collection::greedy}, Named{"fifo", Collection::fifo},
                                 Named{"d_choices", Collection::d_choices},
                                 Named{"cost_benefit", Collection::cost_benefit}};
constexpr std::array suspends{Named{"none", Suspend::none}, Named{"erase", Suspend::erase},
                              Named{"program_erase", Suspend::program_erase}};
constexpr std::array tierings{Named{"age", Tiering::age}, Named{"heat", Tiering::heat}};
constexpr std::array isolations{Named{"initial", Isolation::initial}, Named{"persistent", Isolation::persistent}};

using Count = std::uint64_t Profile::*;
using Real = double Profile::*;
using Flag = bool Profile::*;
using Reals = std::vector<double> Profile::*;
using Member = std::variant<Count, Real, Flag, Reals, Collection Profile::*, Suspend Profile::*, Isolation Profile::*,
                            Tiering Profile::*>;

// Every figure of a profile: where it is in the file, where it goes, and what it can be. Without a default it must be
// given.
struct Field {
  std::string_view section, key;
  Member member;
  double low = 0, high = 0;
  bool optional = false;
};

constexpr double huge = 1e18;
constexpr bool optional = true;

const auto fields = std::to_array<Field>({
    {"geometry", "channels", &Profile::channels, 1, 256},
    {"geometry", "dies_per_channel", &Profile::dies_per_channel, 1, 256},
    {"geometry", "planes_per_die", &Profile::planes_per_die, 1, 64},
    {"geometry", "blocks_per_plane", &Profile::blocks_per_plane, 4, 1e6},
    {"geometry", "wordlines_per_block", &Profile::wordlines_per_block, 1, 65536},
    {"geometry", "bits_per_cell", &Profile::bits_per_cell, 1, 4},
    {"geometry", "page_bytes", &Profile::page_bytes, 512, 1 << 20},
    {"geometry", "read_lanes_per_die", &Profile::read_lanes_per_die, 1, 64},
    {"media", "read_us", &Profile::read_us, 0.1, 1e5},
    {"media", "program_us", &Profile::program_us, 0.1, 1e6},
    {"media", "erase_us", &Profile::erase_us, 0, 1e6},
    {"media", "pe_cycles", &Profile::pe_cycles, 1, 1e9},
    {"media", "retries_fresh", &Profile::retries_fresh, 0, 100, optional},
    {"media", "retries_worn", &Profile::retries_worn, 0, 100, optional},
    {"media", "retry_exponent", &Profile::retry_exponent, 0.1, 10, optional},
    {"media", "bad_share", &Profile::bad_share, 0, 0.2, optional},
    {"media", "retries_per_month", &Profile::retries_per_month, 0, 100, optional},
    {"media", "slc_read_us", &Profile::slc_read_us, 0.1, 1e5, optional},
    {"media", "slc_program_us", &Profile::slc_program_us, 0.1, 1e6, optional},
    {"media", "slc_erase_us", &Profile::slc_erase_us, 0, 1e6, optional},
    {"media", "slc_pe_cycles", &Profile::slc_pe_cycles, 1, 1e9, optional},
    {"die", "suspend", &Profile::suspend},
    {"die", "suspend_us", &Profile::suspend_us, 0, 1e5, optional},
    {"die", "resume_us", &Profile::resume_us, 0, 1e5, optional},
    {"die", "cache_read", &Profile::cache_read},
    {"die", "cache_program", &Profile::cache_program},
    {"channel", "channel_mb", &Profile::channel_mb, 1, 1e6},
    {"channel", "channel_overhead_us", &Profile::channel_overhead_us, 0, 1e3, optional},
    {"channel", "parity_share", &Profile::parity_share, 0, 1, optional},
    {"controller", "iops_max", &Profile::iops_max, 1, 1e9},
    {"controller", "read_us", &Profile::read_us_controller, 0, 1e4},
    {"controller", "write_us", &Profile::write_us_controller, 0, 1e4},
    {"controller", "ecc_us", &Profile::ecc_us, 0, 1e4, optional},
    {"controller", "compress_us", &Profile::compress_us, 0, 1e4, optional},
    {"controller", "decompress_us", &Profile::decompress_us, 0, 1e4, optional},
    {"controller", "read_cache_bytes", &Profile::read_cache_bytes, 0, 1e15, optional},
    {"controller", "read_cache_shares", &Profile::read_cache_shares, 0, 1, optional},
    {"controller", "priorities", &Profile::priorities},
    {"controller", "starvation_us", &Profile::starvation_us, 0, 1e9, optional},
    {"controller", "buffer_bytes", &Profile::buffer_bytes, 4096, 1e12},
    {"controller", "power_loss_protection", &Profile::power_loss_protection},
    {"translation", "capacity_bytes", &Profile::capacity_bytes, 1, huge},
    {"translation", "map_unit_bytes", &Profile::map_unit_bytes, 512, 1 << 20},
    {"translation", "map_cache_bytes", &Profile::map_cache_bytes, 0, 1e15, optional},
    {"translation", "map_entry_bytes", &Profile::map_entry_bytes, 4, 64, optional},
    {"translation", "stripe_dies", &Profile::stripe_dies, 1, 65536, optional},
    {"translation", "compress_grain", &Profile::compress_grain, 0, 1 << 20, optional},
    {"translation", "tiering", &Profile::tiering, 0, 0, optional},
    {"translation", "collection", &Profile::collection},
    {"translation", "choices", &Profile::choices, 1, 1e6, optional},
    {"translation", "collect_below", &Profile::collect_below, 2, 1e6},
    {"translation", "placement_handles", &Profile::placement_handles, 1, 128, optional},
    {"translation", "isolation", &Profile::isolation, 0, 0, optional},
    {"translation", "pslc_superblocks", &Profile::pslc_superblocks, 0, 1e6, optional},
    {"translation", "wear_spread", &Profile::wear_spread, 0, 1, optional},
    {"host", "link_mb", &Profile::link_mb, 1, 1e7},
    {"host", "queue_depth", &Profile::queue_depth, 1, 1 << 20},
    {"host", "queues", &Profile::queues, 1, 65535},
    {"host", "submit_us", &Profile::submit_us, 0, 1e4},
    {"host", "complete_us", &Profile::complete_us, 0, 1e4},
    {"energy", "read_uj", &Profile::read_uj, 0, 1e6},
    {"energy", "program_uj", &Profile::program_uj, 0, 1e6},
    {"energy", "erase_uj", &Profile::erase_uj, 0, 1e9},
    {"energy", "channel_pj", &Profile::channel_pj, 0, 1e6},
    {"energy", "link_pj", &Profile::link_pj, 0, 1e6},
    {"energy", "idle_w", &Profile::idle_w, 0, 1e3},
    {"price", "usd_per_tb", &Profile::usd_per_tb, 0, 1e9},
    {"price", "usd_per_kwh", &Profile::usd_per_kwh, 0, 100, optional},
    {"price", "service_years", &Profile::service_years, 0.1, 100, optional},
});

// Messages name a line, which the JSON library does not keep: the place of a key after its section's.
class Lines {
 public:
  Lines(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  std::string at(std::string_view section, std::string_view key = "") const {
    std::size_t place = text_.find('"' + std::string(section) + '"');
    if (place != std::string_view::npos && !key.empty()) {
      const std::size_t inner = text_.find('"' + std::string(key) + '"', place);
      if (inner != std::string_view::npos) place = inner;
    }
    return offset(place == std::string_view::npos ? 0 : place);
  }
  std::string offset(std::size_t place) const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(place, text_.size()));
    return fmt::format("{}:{}", where_, 1 + std::count(text_.begin(), end, '\n'));
  }

 private:
  std::string_view text_, where_;
};

template <typename T, std::size_t n>
Status set_named(T& target, const Json& value, const std::array<Named<T>, n>& names, const std::string& place,
                 const std::string& key) {
  std::string known;
  for (const auto& one : names) {
    if (value.is_string() && value.get<std::string>() == one.name) {
      target = one.value;
      return {};
    }
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  return fail(Code::invalid, "{}: {} takes one of {}, not {}", place, key, known, value.dump());
}

Status set_number(double& target, const Json& value, const Field& field, const std::string& place) {
  if (!value.is_number()) {
    return fail(Code::invalid, "{}: {} takes a number, not {}", place, field.key, value.dump());
  }
  target = value.get<double>();
  if (!(target >= field.low && target <= field.high)) {
    return fail(Code::invalid, "{}: {} is {}, which is not between {} and {}", place, field.key, target, field.low,
                field.high);
  }
  return {};
}

Status set_count(std::uint64_t& target, const Json& value, const Field& field, const std::string& place) {
  double number = 0;
  if (auto set = set_number(number, value, field, place); !set) return set;
  if (number != std::floor(number)) {
    return fail(Code::invalid, "{}: {} is {}, which is no whole number", place, field.key, number);
  }
  target = value.is_number_integer() ? value.get<std::uint64_t>() : static_cast<std::uint64_t>(number);
  return {};
}

Status set_numbers(std::vector<double>& target, const Json& value, const Field& field, const std::string& place) {
  target.clear();
  if (!value.is_array() || value.empty()) {
    return fail(Code::invalid, "{}: {} takes a list of numbers, not {}", place, field.key, value.dump());
  }
  for (const Json& one : value) {
    double number = 0;
    if (auto set = set_number(number, one, field, place); !set) return set;
    target.push_back(number);
  }
  return {};
}

Status set_value(Profile& profile, const Field& field, const Json& value, const std::string& place) {
  const std::string key(field.key);
  if (const auto* count = std::get_if<Count>(&field.member)) return set_count(profile.**count, value, field, place);
  if (const auto* real = std::get_if<Real>(&field.member)) return set_number(profile.**real, value, field, place);
  if (const auto* reals = std::get_if<Reals>(&field.member)) return set_numbers(profile.**reals, value, field, place);
  if (const auto* flag = std::get_if<Flag>(&field.member)) {
    if (!value.is_boolean()) {
      return fail(Code::invalid, "{}: {} takes true or false, not {}", place, key, value.dump());
    }
    profile.** flag = value.get<bool>();
    return {};
  }
  if (const auto* collection = std::get_if<Collection Profile::*>(&field.member)) {
    return set_named(profile.**collection, value, collections, place, key);
  }
  if (const auto* suspend = std::get_if<Suspend Profile::*>(&field.member)) {
    return set_named(profile.**suspend, value, suspends, place, key);
  }
  if (const auto* tiering = std::get_if<Tiering Profile::*>(&field.member)) {
    return set_named(profile.**tiering, value, tierings, place, key);
  }
  return set_named(profile.*std::get<Isolation Profile::*>(field.member), value, isolations, place, key);
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// {"value": ..., "source": "..."} or {"value": ..., "assumption": "..."}
Status read_figure(Profile& profile, const Field& field, const Json& figure, const std::string& place) {
  if (!figure.is_object() || !figure.contains("value")) {
    return fail(Code::invalid, "{}: {} takes an object with a value and its source or assumption", place, field.key);
  }
  Figure known{.key = fmt::format("{}.{}", field.section, field.key),
               .value = figure["value"].dump(),
               .source = text_of(figure, "source"),
               .assumption = text_of(figure, "assumption")};
  if (known.source.empty() == known.assumption.empty()) {
    return fail(Code::invalid, "{}: {} needs either the source of the figure or an assumption", place, field.key);
  }
  if (auto set = set_value(profile, field, figure["value"], place); !set) return set;
  profile.figures.push_back(std::move(known));
  return {};
}

Status read_section(Profile& profile, const Json& file, const std::string& section, const Lines& lines) {
  const auto found = file.find(section);
  if (found == file.end() || !found->is_object()) {
    return fail(Code::invalid, "{}: the section {} is missing", lines.offset(0), section);
  }
  for (const auto& [key, value] : found->items()) {
    const bool known = std::ranges::any_of(
        fields, [&, &name = key](const Field& field) { return field.section == section && field.key == name; });
    if (!known) return fail(Code::invalid, "{}: {} has no {}", lines.at(section, key), section, key);
  }
  for (const Field& field : fields) {
    if (field.section != section) continue;
    const auto figure = found->find(field.key);
    if (figure == found->end()) {
      if (field.optional) continue;
      return fail(Code::invalid, "{}: {} lacks {}", lines.at(section), section, field.key);
    }
    if (auto read = read_figure(profile, field, *figure, lines.at(section, field.key)); !read) return read;
  }
  return {};
}

Status read_published(Profile& profile, const Json& file, const Lines& lines) {
  const auto list = file.find("published");
  if (list == file.end() || !list->is_array()) {
    return fail(Code::invalid, "{}: the list published is missing", lines.offset(0));
  }
  for (const Json& one : *list) {
    Published entry{.measure = text_of(one, "measure"),
                    .unit = text_of(one, "unit"),
                    .source = text_of(one, "source"),
                    .note = text_of(one, "note")};
    const bool complete = one.is_object() && one.contains("figure") && one["figure"].is_number() &&
                          one.contains("used") && one["used"].is_boolean() && !entry.measure.empty() &&
                          !entry.source.empty();
    if (!complete) {
      return fail(Code::invalid, "{}: an entry of published needs measure, figure, used and source",
                  lines.at("published"));
    }
    entry.figure = one["figure"].get<double>();
    entry.used = one["used"].get<bool>();
    profile.published.push_back(std::move(entry));
  }
  return {};
}

}  // namespace

std::uint64_t reserve_superblocks(const Profile& p) {
  return p.collect_below + p.placement_handles + 4 + (p.tiering == Tiering::heat ? 1 : 0);
}

Status check_size(const Profile& p) {
  const double grains = static_cast<double>(p.physical_bytes()) / static_cast<double>(p.grain_bytes());
  if (grains <= 4294967294.0) return {};
  return fail(Code::invalid,
              "profile {}: {} of flash in pieces of {} bytes are more than can be simulated at once; \
take a part of the capacity",
              p.name, format_bytes(p.physical_bytes()), p.grain_bytes());
}

Status check_profile(const Profile& p) {
  const auto no = [&](std::string why) { return fail(Code::invalid, "profile {}: {}", p.name, why); };
  if (p.read_us.size() != p.bits_per_cell) {
    return no(fmt::format("{} bits a cell need as many read times, there are {}", p.bits_per_cell, p.read_us.size()));
  }
  if (p.planes_per_die % p.read_lanes_per_die != 0) return no("planes are not a multiple of read lanes");
  if (p.map_unit_bytes > p.page_bytes || p.page_bytes % p.map_unit_bytes != 0 || p.map_unit_bytes % 512 != 0) {
    return no(fmt::format("a page of {} bytes is no multiple of the map unit of {}", p.page_bytes, p.map_unit_bytes));
  }
  // As many blocks are bad as in the plane that has the most of them.
  const double bad = p.bad_share * static_cast<double>(p.blocks_per_plane);
  const auto bad_most = static_cast<std::uint64_t>(std::ceil(bad + 5 * std::sqrt(bad)));
  const std::uint64_t reserve = (reserve_superblocks(p) + bad_most) * p.superblock_bytes();
  if (p.capacity_bytes + reserve > p.physical_bytes()) {
    return no(fmt::format(
        "a capacity of {} leaves too little of {} of flash: {} are needed for open, free and bad superblocks",
        format_bytes(p.capacity_bytes), format_bytes(p.physical_bytes()), format_bytes(reserve)));
  }
  if (p.dies() % p.stripe_dies != 0) return no(fmt::format("{} dies are no multiple of a stripe", p.dies()));
  if (p.map_unit_bytes % p.grain_bytes() != 0 || p.map_unit_bytes / p.grain_bytes() > 255) {
    return no(fmt::format("a map unit of {} bytes is not at most 255 times a compressed grain of {}", p.map_unit_bytes,
                          p.grain_bytes()));
  }
  if (p.tiering == Tiering::heat && p.pslc_superblocks < 2) return no("tiering by heat needs superblocks of pSLC");
  double shares = 0;
  for (const double share : p.read_cache_shares) shares += share;
  if (shares > 1.0001) return no(fmt::format("shares of the read cache add up to {:g}", shares));
  const std::uint64_t program = p.planes_per_die * p.bits_per_cell * p.page_bytes * p.stripe_dies;
  if (p.buffer_bytes < (p.placement_handles + 1) * program) {
    return no(fmt::format("a buffer of {} cannot hold a program of {} for each placement handle and one more",
                          format_bytes(p.buffer_bytes), format_bytes(program)));
  }
  if (p.pslc_superblocks > 0 && p.bits_per_cell < 2) return no("one-bit cells have no pSLC mode");
  return {};
}

Result<Profile> parse_profile(std::string_view json, std::string_view where) {
  const Lines lines(json, where);
  Json file;
  try {
    file = Json::parse(json);
  } catch (const Json::parse_error& error) {
    return fail(Code::invalid, "{}: is no JSON here", lines.offset(error.byte > 0 ? error.byte - 1 : 0));
  }
  Profile profile;
  if (!file.is_object()) return fail(Code::invalid, "{}:1: a profile is a JSON object", where);
  profile.name = text_of(file, "name");
  profile.title = text_of(file, "title");
  profile.about = text_of(file, "about");
  if (profile.name.empty() || profile.title.empty()) {
    return fail(Code::invalid, "{}:1: a profile needs a name and a title", where);
  }
  for (const char* section :
       {"geometry", "media", "die", "channel", "controller", "translation", "host", "energy", "price"}) {
    if (auto read = read_section(profile, file, section, lines); !read) return fail(read.error());
  }
  if (auto read = read_published(profile, file, lines); !read) return fail(read.error());
  if (auto checked = check_profile(profile); !checked) {
    return fail(Code::invalid, "{}: {}", lines.at("geometry"), checked.error().message);
  }
  return profile;
}

Profile with_capacity(Profile profile, std::uint64_t capacity_bytes) {
  if (capacity_bytes >= profile.capacity_bytes) return profile;
  const double alpha = profile.alpha();
  const double share = static_cast<double>(capacity_bytes) / static_cast<double>(profile.capacity_bytes);
  const double wanted = share * static_cast<double>(profile.blocks_per_plane);
  const double reserve = static_cast<double>(reserve_superblocks(profile)) + 1;
  const double least =
      std::min(std::ceil(reserve * alpha / (alpha - 1)) + 2, static_cast<double>(profile.blocks_per_plane));
  const double blocks = std::max(std::round(wanted), least);
  const double wordlines =
      std::round(static_cast<double>(profile.wordlines_per_block) * std::min(wanted / blocks, 1.0));
  const double pslc =
      static_cast<double>(profile.pslc_superblocks) * blocks / static_cast<double>(profile.blocks_per_plane);
  profile.pslc_superblocks = static_cast<std::uint64_t>(std::ceil(pslc));
  // As much less of DRAM that knows or keeps a part of the drive, so that this part stays the same.
  for (std::uint64_t* bytes : {&profile.map_cache_bytes, &profile.read_cache_bytes}) {
    if (*bytes == 0) continue;
    *bytes = align_up(static_cast<std::uint64_t>(static_cast<double>(*bytes) * share), profile.map_unit_bytes);
  }
  profile.blocks_per_plane = static_cast<std::uint64_t>(blocks);
  profile.wordlines_per_block = static_cast<std::uint64_t>(std::max(wordlines, 1.0));
  const double bytes = static_cast<double>(profile.physical_bytes()) / alpha;
  profile.capacity_bytes = align_down(static_cast<std::uint64_t>(bytes), profile.map_unit_bytes);
  return profile;
}

Result<Profile> shipped_profile(std::string_view name) {
  std::string names;
  for (const ShippedProfile& one : shipped_profiles()) {
    if (one.name == name) return parse_profile(one.json, fmt::format("{}.json", name));
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  return fail(Code::not_found, "there is no profile {}; there are {}", name, names);
}

}  // namespace artesian::nand
