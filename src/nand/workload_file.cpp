// Reading a workload's file.
#include <charconv>
#include <map>
#include <sstream>

#include "base/units.h"
#include "nand/workload.h"

namespace artesian::nand {
namespace {

std::string trimmed(std::string text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

struct Line {
  std::string key, value, place;  // place: file and line, for messages
};

Status set_number(double& target, const Line& line, double low, double high) {
  const bool share = line.value.ends_with('%');
  const std::string text = share ? line.value.substr(0, line.value.size() - 1) : line.value;
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return fail(Code::invalid, "{}: {} takes a number, not {}", line.place, line.key, line.value);
  }
  if (share) number /= 100;
  if (!(number >= low && number <= high)) {
    return fail(Code::invalid, "{}: {} is {}, which is not between {} and {}", line.place, line.key, line.value, low,
                high);
  }
  target = number;
  return {};
}

template <typename T>
Status set_count(T& target, const Line& line, double low, double high) {
  double number = 0;
  if (auto set = set_number(number, line, low, high); !set) return set;
  target = static_cast<T>(number);
  return {};
}

Status set_size(std::uint64_t& target, const Line& line) {
  const auto size = parse_size(line.value);
  if (!size || *size == 0) return fail(Code::invalid, "{}: {} takes a size, not {}", line.place, line.key, line.value);
  target = *size;
  return {};
}

Status set_text(std::string& target, const Line& line) {
  if (line.value.empty()) return fail(Code::invalid, "{}: {} takes a name", line.place, line.key);
  target = line.value;
  return {};
}

// Bytes, or a share of the drive: "25%".
Status set_extent(std::uint64_t& bytes, double& share, const Line& line) {
  if (line.value.ends_with('%')) return set_number(share, line, 0, 1);
  if (line.value == "0") return {};
  return set_size(bytes, line);
}

Status set_pattern(Flow& flow, const Line& line) {
  const std::string& rw = line.value;
  const bool random = rw.starts_with("rand");
  const std::string kind = random ? rw.substr(4) : rw;
  if (kind == "read" || kind == "write" || kind == "rw") {
    flow.access = random ? Access::random : Access::sequential;
    flow.reads = kind == "read" ? 1 : kind == "write" ? 0 : 0.5;
    if (kind == "write") flow.io_class = IoClass::write;
    return {};
  }
  return fail(Code::invalid, "{}: rw takes one of read, write, rw, randread, randwrite, randrw, not {}", line.place,
              rw);
}

Status set_class(IoClass& io_class, const Line& line) {
  static const std::map<std::string, IoClass> names{{"demand", IoClass::demand},
                                                    {"staged", IoClass::staged},
                                                    {"write", IoClass::write},
                                                    {"reclaim", IoClass::reclaim}};
  const auto found = names.find(line.value);
  if (found == names.end()) {
    return fail(Code::invalid, "{}: class takes one of demand, staged, write, reclaim, not {}", line.place, line.value);
  }
  io_class = found->second;
  return {};
}

Status set_drive(Workload& workload, const Line& line) {
  if (line.key == "capacity") return set_size(workload.capacity_bytes, line);
  if (line.key == "fill") return set_number(workload.fill, line, 0, 1);
  if (line.key == "compress") return set_number(workload.compress, line, 1, 100);
  if (line.key == "overwrite") return set_number(workload.overwrite, line, 0, 100);
  if (line.key == "wear") return set_number(workload.wear, line, 0, 1);
  if (line.key == "age_months") return set_number(workload.age_months, line, 0, 1000);
  if (line.key == "seconds") return set_number(workload.seconds, line, 1e-6, 1e6);
  if (line.key == "seed") return set_count(workload.seed, line, 0, 9e15);
  return fail(Code::invalid, "{}: the drive has no {}", line.place, line.key);
}

Status set_model(Serving& serving, const Line& line) {
  if (line.key == "prefill") return set_number(serving.prefill, line, 1e-3, 1e9);
  if (line.key == "decode") return set_number(serving.decode, line, 1e-3, 1e9);
  if (line.key == "kv_token") return set_size(serving.kv_token_bytes, line);
  if (line.key == "watts") return set_number(serving.watts, line, 0, 1e6);
  if (line.key == "usd_per_hour") return set_number(serving.usd_per_hour, line, 0, 1e6);
  return fail(Code::invalid, "{}: the model has no {}", line.place, line.key);
}

Status set_kv(Serving& serving, const Line& line) {
  if (line.key == "trace") return set_text(serving.trace, line);
  if (line.key == "requests") return set_count(serving.requests, line, 1, 1e12);
  if (line.key == "speed") return set_number(serving.speed, line, 1e-6, 1e6);
  if (line.key == "store") return set_size(serving.store_bytes, line);
  if (line.key == "policy") return set_text(serving.policy, line);
  if (line.key == "compress") return set_number(serving.kv_compress, line, 1, 100);
  return fail(Code::invalid, "{}: kv has no {}", line.place, line.key);
}

Status set_experts(Serving& serving, const Line& line) {
  if (line.key == "routes") return set_text(serving.routes, line);
  if (line.key == "cycles") return set_number(serving.cycles, line, 0, 1e6);
  if (line.key == "memory") return set_size(serving.memory_bytes, line);
  if (line.key == "tokens") return set_count(serving.tokens, line, 1, 1e12);
  if (line.key == "prompt") return set_count(serving.prompt, line, 1, 1e9);
  if (line.key == "compress") return set_number(serving.weights_compress, line, 1, 100);
  return fail(Code::invalid, "{}: experts have no {}", line.place, line.key);
}

Status set_flow(Workload::Entry& entry, const Line& line) {
  Flow& flow = entry.flow;
  if (line.key == "rw") return set_pattern(flow, line);
  if (line.key == "rwmixread") {
    if (auto set = set_number(flow.reads, line, 0, 100); !set) return set;
    if (!line.value.ends_with('%')) flow.reads /= 100;
    return {};
  }
  if (line.key == "bs") return set_size(flow.bytes, line);
  if (line.key == "iodepth") return set_count(flow.depth, line, 1, 1 << 20);
  if (line.key == "rate_iops") return set_number(flow.per_second, line, 1e-3, 1e9);
  if (line.key == "offset") return set_extent(flow.first, entry.first_share, line);
  if (line.key == "size") return set_extent(flow.length, entry.length_share, line);
  if (line.key == "number_ios") return set_count(flow.requests, line, 1, 1e12);
  if (line.key == "hops") return set_count(entry.hops, line, 1, 1e6);
  if (line.key == "beam") return set_count(entry.beam, line, 1, 1e6);
  if (line.key == "burst") return set_size(entry.burst_bytes, line);
  if (line.key == "every") return set_number(flow.every_seconds, line, 1e-6, 1e6);
  if (line.key == "class") return set_class(flow.io_class, line);
  if (line.key == "handle") return set_count(flow.handle, line, 0, 127);
  if (line.key == "compress") return set_number(flow.compress, line, 1, 100);
  if (line.key == "partition") return set_count(flow.partition, line, 0, 255);
  if (line.key == "hint") return set_count(flow.hints, line, 1, 4096);
  if (line.key == "queue") return set_count(flow.queue, line, 0, 65534);
  return fail(Code::invalid, "{}: a flow has no {}", line.place, line.key);
}

// A section of the file, by name; any other name is a flow's.
using SetIn = Status (*)(Workload&, const Line&);
const std::map<std::string, SetIn> sections{
    {"drive", set_drive},
    {"model", [](Workload& workload, const Line& line) { return set_model(workload.serving, line); }},
    {"kv", [](Workload& workload, const Line& line) { return set_kv(workload.serving, line); }},
    {"experts", [](Workload& workload, const Line& line) { return set_experts(workload.serving, line); }},
};

Status set_last_flow(Workload& workload, const Line& line) {
  return set_flow(workload.flows.back(), line);
}

// Requests that belong together: a lookup goes `hops` steps of `beam` reads, a checkpoint is `burst` bytes.
Status set_groups(Workload::Entry& entry, std::string_view where) {
  Flow& flow = entry.flow;
  const auto no = [&](std::string_view why) {
    return fail(Code::invalid, "{}:{}: the flow {} {}", where, entry.line, flow.name, why);
  };
  if (entry.burst_bytes != 0 && entry.hops != 0) return no("has a burst and hops: it is one or the other");
  if (flow.hints > 0 && flow.reads < 1) return no("hints at what it writes");
  if (flow.hints > 0 && entry.hops != 0) return no("has hints and hops: the next hop is not known before");
  if (entry.beam != 0 && entry.hops == 0) return no("has a beam and no hops");
  if (flow.every_seconds > 0 && entry.burst_bytes == 0) return no("says every how long, and no burst");
  if (entry.hops != 0) {
    flow.width = std::max(entry.beam, 1U);
    flow.group = entry.hops * flow.width;
    flow.steps = true;
  } else if (entry.burst_bytes != 0) {
    if (flow.every_seconds <= 0) return no("has a burst, and says not every how long");
    flow.group = (entry.burst_bytes + flow.bytes - 1) / flow.bytes;
    flow.width = flow.depth;
  }
  return {};
}

Status check_workload(Workload& workload) {
  for (Workload::Entry& entry : workload.flows) {
    if (auto set = set_groups(entry, workload.name); !set) return set;
  }
  if (workload.flows.empty() && !workload.serving.any()) {
    return fail(Code::invalid, "{}: has no flows, no trace and no routes", workload.name);
  }
  if (!workload.flows.empty() && workload.serving.any()) {
    return fail(Code::invalid, "{}:{}: flows do not go with a trace or routes; give them a file of their own",
                workload.name, workload.flows.front().line);
  }
  return {};
}

// `only`: the one section that may be there; empty: all.
Status parse_sections(Workload& workload, std::string_view text, std::string_view where, std::string_view only = {}) {
  std::istringstream lines{std::string(text)};
  std::string raw;
  SetIn in = nullptr;
  for (std::size_t number = 1; std::getline(lines, raw); ++number) {
    const std::string place = fmt::format("{}:{}", where, number);
    const std::string line = trimmed(raw.substr(0, raw.find_first_of("#;")));
    if (line.empty()) continue;
    if (line.front() == '[') {
      if (line.back() != ']' || line.size() < 3) return fail(Code::invalid, "{}: a section is [name]", place);
      const std::string name = line.substr(1, line.size() - 2);
      if (!only.empty() && name != only) {
        return fail(Code::invalid, "{}: only [{}] has a place here, not [{}]", place, only, name);
      }
      const auto known = sections.find(name);
      in = known != sections.end() ? known->second : set_last_flow;
      if (in == set_last_flow) workload.flows.push_back({.flow = {.name = name}, .line = number});
      continue;
    }
    const auto equals = line.find('=');
    if (equals == std::string::npos || in == nullptr) {
      return fail(Code::invalid, "{}: is neither a section nor a setting of one", place);
    }
    const Line setting{trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)), place};
    if (auto set = in(workload, setting); !set) return set;
  }
  return {};
}

}  // namespace

Result<Workload> parse_workload(std::string_view text, std::string_view where) {
  Workload workload{.name = std::string(where)};
  if (auto parsed = parse_sections(workload, text, where); !parsed) return fail(parsed.error());
  if (auto checked = check_workload(workload); !checked) return fail(checked.error());
  return workload;
}

Status parse_model(std::string_view text, std::string_view where, Serving& serving) {
  Workload workload{.name = std::string(where), .serving = serving};
  if (auto parsed = parse_sections(workload, text, where, "model"); !parsed) return parsed;
  serving = workload.serving;
  return {};
}

}  // namespace artesian::nand
