#include "wire/attach_wire.h"

#include <algorithm>
#include <cstring>

#include "base/little_endian.h"

namespace artesian::attach {
namespace {

constexpr std::uint64_t magic = 0x484341'5452'41ULL;  // "ARTACH"

class Writer {
 public:
  Writer() : bytes_(length_bytes) {}

  template <typename Number>
  void number(Number value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(value));
    store_le(std::span(bytes_), at, value);
  }
  void text(std::span<const std::byte> bytes) {
    number(static_cast<std::uint32_t>(bytes.size()));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(const std::string& bytes) { text(std::as_bytes(std::span(bytes))); }
  std::vector<std::byte> frame() && {
    store_le(std::span(bytes_), 0, static_cast<std::uint32_t>(bytes_.size() - length_bytes));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

// After the first thing that is not there all others are zero or empty.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename Number>
  Number number() {
    if (rest_.size() < sizeof(Number)) {
      spoil();
      return 0;
    }
    const auto value = load_le<Number>(rest_, 0);
    rest_ = rest_.subspan(sizeof(Number));
    return value;
  }
  std::span<const std::byte> bytes() {
    const auto size = number<std::uint32_t>();
    if (rest_.size() < size) {
      spoil();
      return {};
    }
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  std::string text() {
    const auto taken = bytes();
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  // How many things follow, of which each takes at least `least` bytes.
  std::size_t count(std::size_t limit, std::size_t least) {
    const auto many = number<std::uint32_t>();
    if (many > limit || many * least > rest_.size()) {
      spoil();
      return 0;
    }
    return many;
  }
  void spoil() {
    whole_ = false;
    rest_ = {};
  }
  bool whole() const { return whole_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool whole_ = true;
};

constexpr std::size_t extents_max = 65'536;

void write(Writer& to, const NamespaceFields& fields) {
  for (const auto* text : {&fields.model, &fields.weights, &fields.dtype, &fields.layout, &fields.adapter, &fields.salt,
                           &fields.codec, &fields.policy}) {
    to.text(*text);
  }
  for (const auto number : {fields.block_tokens, fields.rank, fields.world_size}) to.number(number);
}

NamespaceFields read_fields(Reader& from) {
  NamespaceFields fields;
  for (auto* text : {&fields.model, &fields.weights, &fields.dtype, &fields.layout, &fields.adapter, &fields.salt,
                     &fields.codec, &fields.policy}) {
    *text = from.text();
  }
  for (auto* number : {&fields.block_tokens, &fields.rank, &fields.world_size}) *number = from.number<std::uint32_t>();
  return fields;
}

bool has_data(Op op) {
  return op == Op::put || op == Op::get;
}

bool has_name(Op op) {
  return op == Op::pin_named || op == Op::unpin_named;
}

void write(Writer& to, Op op, const Item& item) {
  to.text(item.key);
  if (has_data(op)) {
    to.number(item.offset);
    to.number(item.bytes);
  }
  if (op != Op::put) return;
  to.text(item.parent);
  to.text(item.attributes);
  to.number(static_cast<std::uint32_t>(item.extents.size()));
  for (const std::uint32_t extent : item.extents) to.number(extent);
  to.number(item.hints.session);
  to.number(item.hints.position);
  to.number(item.hints.tokens);
  to.number(item.hints.deadline_ms);
  to.number(item.hints.next_use_ms);
  to.number(item.hints.lifetime);
}

Item read_item(Reader& from, Op op) {
  Item item{.key = from.bytes()};
  if (has_data(op)) {
    item.offset = from.number<std::uint64_t>();
    item.bytes = from.number<std::uint64_t>();
  }
  if (op != Op::put) return item;
  item.parent = from.bytes();
  item.attributes = from.bytes();
  item.extents.resize(from.count(extents_max, sizeof(std::uint32_t)));
  for (auto& extent : item.extents) extent = from.number<std::uint32_t>();
  item.hints.session = from.number<std::uint64_t>();
  item.hints.position = from.number<std::uint32_t>();
  item.hints.tokens = from.number<std::uint32_t>();
  item.hints.deadline_ms = from.number<std::uint64_t>();
  item.hints.next_use_ms = from.number<std::uint64_t>();
  item.hints.lifetime = from.number<std::uint8_t>();
  return item;
}

}  // namespace

Greeting greeting() {
  Greeting said{};
  store_le(std::span(said), 0, magic);
  store_le(std::span(said), sizeof(magic), version);
  return said;
}

Status check_greeting(const Greeting& heard) {
  if (load_le<std::uint64_t>(heard, 0) != magic) return fail(Code::invalid, "this is no greeting of Artesian's");
  const auto theirs = load_le<std::uint32_t>(heard, sizeof(magic));
  if (theirs == version) return {};
  return fail(Code::invalid, "a program that speaks version {} of this, here it is {}: use programs of one release",
              theirs, version);
}

std::vector<std::byte> encode(const Request& request) {
  Writer to;
  to.number(static_cast<std::uint8_t>(request.op));
  to.number(request.id);
  to.number(request.ns);
  to.number(static_cast<std::uint64_t>(request.patience.count()));
  to.number(static_cast<std::uint8_t>(request.urgency));
  if (request.op == Op::open_namespace) write(to, request.fields);
  if (has_name(request.op)) to.text(request.name);
  to.number(static_cast<std::uint32_t>(request.items.size()));
  for (const Item& item : request.items) write(to, request.op, item);
  return std::move(to).frame();
}

void set_id(std::vector<std::byte>& frame, std::uint64_t id) {
  store_le(std::span(frame), length_bytes + sizeof(std::uint8_t), id);
}

Result<Request> decode_request(std::span<const std::byte> body) {
  Reader from(body);
  Request request;
  const auto op = from.number<std::uint8_t>();
  request.op = static_cast<Op>(op);
  request.id = from.number<std::uint64_t>();
  request.ns = from.number<NamespaceId>();
  const auto patience = from.number<std::uint64_t>();
  const auto urgency = from.number<std::uint8_t>();
  if (op < static_cast<std::uint8_t>(Op::open_namespace) || op > static_cast<std::uint8_t>(Op::named_pins) ||
      patience > static_cast<std::uint64_t>(INT64_MAX) || urgency > static_cast<std::uint8_t>(Urgency::staged)) {
    return fail(Code::corrupt, "a request of kind {} that is none", op);
  }
  request.patience = Nanos(static_cast<std::int64_t>(patience));
  request.urgency = static_cast<Urgency>(urgency);
  if (request.op == Op::open_namespace) request.fields = read_fields(from);
  if (has_name(request.op)) request.name = from.text();
  const std::size_t count = from.count(items_max, sizeof(std::uint32_t));
  request.items.reserve(count);
  for (std::size_t i = 0; i < count; ++i) request.items.push_back(read_item(from, request.op));
  if (!from.whole()) return fail(Code::corrupt, "a request of kind {} that is not whole", op);
  return request;
}

std::vector<std::byte> encode(const Reply& reply) {
  Writer to;
  to.number(reply.id);
  to.number(static_cast<std::uint8_t>(reply.error ? 1 + static_cast<unsigned>(reply.error->code) : 0));
  if (reply.error) to.text(reply.error->message);
  to.number(reply.value);
  to.number(static_cast<std::uint32_t>(reply.items.size()));
  for (const Reply::One& one : reply.items) {
    to.number(static_cast<std::uint8_t>(one.outcome));
    to.number(one.bytes);
  }
  to.number(static_cast<std::uint32_t>(reply.pins.size()));
  for (const PinFacts& pin : reply.pins) {
    to.number(pin.ns);
    to.text(pin.name);
    to.number(pin.blocks);
    to.number(pin.bytes);
  }
  return std::move(to).frame();
}

Result<Reply> decode_reply(std::span<const std::byte> body) {
  Reader from(body);
  Reply reply;
  reply.id = from.number<std::uint64_t>();
  const auto code = from.number<std::uint8_t>();
  if (code > 1 + static_cast<unsigned>(Code::invalid)) return fail(Code::corrupt, "an answer with error {}", code);
  if (code > 0) reply.error = Error{static_cast<Code>(code - 1), from.text()};
  reply.value = from.number<std::uint64_t>();
  reply.items.resize(from.count(items_max, sizeof(std::uint8_t) + sizeof(std::uint64_t)));
  for (Reply::One& one : reply.items) {
    const auto outcome = from.number<std::uint8_t>();
    if (outcome > static_cast<std::uint8_t>(Outcome::invalid)) from.spoil();
    one.outcome = static_cast<Outcome>(outcome);
    one.bytes = from.number<std::uint64_t>();
  }
  constexpr std::size_t least = sizeof(NamespaceId) + sizeof(std::uint32_t) + 2 * sizeof(std::uint64_t);
  reply.pins.resize(from.count(pins_max, least));
  for (PinFacts& pin : reply.pins) {
    pin.ns = from.number<NamespaceId>();
    pin.name = from.text();
    pin.blocks = from.number<std::uint64_t>();
    pin.bytes = from.number<std::uint64_t>();
  }
  if (!from.whole()) return fail(Code::corrupt, "an answer that is not whole");
  return reply;
}

}  // namespace artesian::attach
