#include "sim/kv_serving.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "nand/generated.h"
#include "policy/kv_load.h"

namespace artesian::sim {
namespace {

constexpr std::uint64_t buffers_bytes = 512 * MiB;  // blocks on their way to the drive and back
constexpr std::uint64_t buffers_min = 4, buffers_max = 256;

std::span<const std::byte> key_bytes(const std::uint32_t& key) {
  return std::as_bytes(std::span(&key, 1));
}

}  // namespace

std::uint64_t KvServing::block_bytes(const nand::Serving& serving) {
  return align_up(serving.kv_token_bytes * bench::kv_block_tokens, 4096);
}

Result<std::unique_ptr<KvServing>> KvServing::create(Store& store, NamespaceId ns, const Clock& clock,
                                                     const bench::KvTrace& trace, const nand::Serving& serving,
                                                     double bytes_per_second) {
  const std::uint64_t bytes = block_bytes(serving);
  const std::uint64_t count = std::clamp(buffers_bytes / bytes, buffers_min, buffers_max);
  auto memory = Arena::reserve(count * bytes);
  if (!memory) return fail(memory.error());
  return std::unique_ptr<KvServing>(
      new KvServing(store, ns, clock, trace, serving, bytes_per_second, std::move(*memory)));
}

KvServing::KvServing(Store& store, NamespaceId ns, const Clock& clock, const bench::KvTrace& trace,
                     const nand::Serving& serving, double bytes_per_second, Arena memory)
    : store_(store),
      ns_(ns),
      clock_(clock),
      trace_(trace),
      serving_(serving),
      bytes_per_second_(bytes_per_second),
      block_bytes_(block_bytes(serving)),
      memory_(std::move(memory)),
      requests_(trace.requests.size()) {
  if (serving.requests != 0) requests_ = std::min<std::size_t>(requests_, serving.requests);
  for (auto i = static_cast<std::uint32_t>(memory_.size() / block_bytes_); i > 0; --i) free_buffers_.push_back(i - 1);
}

Nanos KvServing::arrival(std::size_t index) const {
  return Nanos(static_cast<std::int64_t>(static_cast<double>(trace_.requests[index].when.count()) / serving_.speed));
}

Nanos KvServing::next() const {
  if (!status_) return Nanos::max();
  const Nanos arriving = next_ < requests_ ? arrival(next_) : Nanos::max();
  return computing_ ? std::min(arriving, computed_at_) : arriving;
}

bool KvServing::finished() const {
  return !status_ || (answered_ == requests_ && under_way_.empty() && reads_.empty() && puts_.empty());
}

void KvServing::act() {
  bool moved = status_.has_value();
  while (moved) {
    store_.poll();
    moved = take_ended();
    for (; next_ < requests_ && arrival(next_) <= clock_.now(); moved = true) arrive(trace_.requests[next_++]);
    moved = compute() || moved;
    moved = start_transfers() || moved;
    moved = moved && status_;
  }
}

void KvServing::arrive(const bench::KvRequest& request) {
  auto prompt = std::make_shared<Prompt>(Prompt{.request = &request, .arrived = arrival(next_ - 1)});
  prompt->whole = request.tokens / bench::kv_block_tokens;  // nobody keys the end of a prompt
  std::vector<std::span<const std::byte>> keys;
  for (const std::uint32_t& block : std::span(request.blocks).first(prompt->whole)) keys.push_back(key_bytes(block));
  const std::size_t there = store_.longest_prefix(ns_, keys);
  const std::vector<KvLoadBlock> blocks(there, {.bytes = block_bytes_, .tokens = bench::kv_block_tokens});
  const std::uint64_t worth = kv_tokens_worth_loading(blocks, {.bytes_per_second = bytes_per_second_,
                                                               .queued_bytes = reading_ * block_bytes_,
                                                               .prefill_tokens_per_second = serving_.prefill});
  prompt->loaded = worth / bench::kv_block_tokens;
  prompt->left = prompt->loaded;
  for (std::size_t i = 0; i < prompt->loaded; ++i) {
    reads_.push_back(std::make_unique<Transfer>(Transfer{.prompt = prompt, .position = i, .key = request.blocks[i]}));
  }
  reading_ += prompt->loaded;
  if (prompt->left == 0) computable_.push_back(std::move(prompt));
}

bool KvServing::take_ended() {
  bool any = false;
  for (std::size_t i = 0; i < under_way_.size();) {
    if (!under_way_[i]->ended) {
      ++i;
      continue;
    }
    const std::unique_ptr<Transfer> transfer = std::exchange(under_way_[i], std::move(under_way_.back()));
    under_way_.pop_back();
    if (!transfer->put) end_get(*transfer);
    free_buffers_.push_back(transfer->buffer);
    any = true;
  }
  return any;
}

void KvServing::end_get(const Transfer& transfer) {
  Prompt& prompt = *transfer.prompt;
  --reading_;
  if (transfer.get_item.outcome == Outcome::miss) {  // it gave way in between: from there on all is computed
    prompt.loaded = std::min(prompt.loaded, transfer.position);
    ++report_.blocks_lost;
  } else if (transfer.get_item.outcome != Outcome::hit) {
    status_ = fail(Code::corrupt, "block {}: {}", transfer.key, outcome_name(transfer.get_item.outcome));
  } else if (!nand::is_generated(nand::seed_word(transfer.key), buffer(transfer.buffer))) {
    status_ = fail(Code::corrupt, "block {} came back with other bytes", transfer.key);
  } else {
    ++report_.blocks_checked;
  }
  if (--prompt.left == 0) computable_.push_back(transfer.prompt);
}

// Ends the prompt that is being computed, and begins the next.
bool KvServing::compute() {
  bool any = false;
  if (computing_ && computed_at_ <= clock_.now()) {
    answer();
    any = true;
  }
  if (computing_ || computable_.empty()) return any;
  computing_ = std::move(computable_.front());
  computable_.pop_front();
  // The last token of a prompt is always computed: it gives the first one of the answer.
  const std::uint64_t known = computing_->loaded * bench::kv_block_tokens;
  const std::uint64_t tokens = std::max<std::uint64_t>(computing_->request->tokens - known, 1);
  const double seconds = static_cast<double>(tokens) / serving_.prefill;
  report_.machine_seconds += seconds;
  computed_at_ = clock_.now() + Nanos(static_cast<std::int64_t>(seconds * 1e9));
  return true;
}

void KvServing::answer() {
  const std::shared_ptr<Prompt> prompt = std::move(computing_);
  const bench::KvRequest& request = *prompt->request;
  ++answered_;
  report_.first_token.add((clock_.now() - prompt->arrived).count());
  report_.prompt_tokens += request.tokens;
  report_.reused_tokens += prompt->loaded * bench::kv_block_tokens;
  report_.output_tokens += request.output;
  for (std::size_t i = prompt->loaded; i < prompt->whole; ++i) {
    puts_.push_back(std::make_unique<Transfer>(Transfer{.put = true,
                                                        .prompt = prompt,
                                                        .position = i,
                                                        .key = request.blocks[i],
                                                        .parent = request.blocks[i == 0 ? 0 : i - 1]}));
  }
}

bool KvServing::start_transfers() {
  bool any = false;
  while (!free_buffers_.empty() && !(reads_.empty() && puts_.empty())) {
    auto& queue = reads_.empty() ? puts_ : reads_;
    std::unique_ptr<Transfer> transfer = std::move(queue.front());
    queue.pop_front();
    transfer->buffer = free_buffers_.back();
    free_buffers_.pop_back();
    under_way_.push_back(std::move(transfer));
    start(*under_way_.back());
    any = true;
  }
  return any;
}

void KvServing::start(Transfer& transfer) {
  const std::span<std::byte> bytes = buffer(transfer.buffer);
  const auto done = [&transfer] { transfer.ended = true; };
  if (!transfer.put) {
    transfer.get_item = {.key = key_bytes(transfer.key), .buffer = bytes};
    return store_.submit(ns_, std::span(&transfer.get_item, 1), {}, done);
  }
  nand::generate(nand::seed_word(transfer.key), 0, bytes);
  transfer.put_item = {
      .key = key_bytes(transfer.key),
      .parent = key_bytes(transfer.parent).first(transfer.position == 0 ? 0 : sizeof transfer.parent),
      .data = bytes,
      .hints = {.position = static_cast<std::uint32_t>(transfer.position), .tokens = bench::kv_block_tokens}};
  store_.submit(ns_, std::span(&transfer.put_item, 1), {}, done);
}

}  // namespace artesian::sim
