// A llama-server as the gateway sees it, without a model: one token a byte, slots whose keys and values are a hash of
// all tokens up to each row, slot files that are checked row by row when they are restored. Its faults are switched on
// by hand. For tests; runs on the test's loop.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/verb.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "format/slot_file.h"
#include "gateway/front.h"
#include "gateway/prefix_tree.h"
#include "platform/file.h"

namespace artesian {

class FakeServer {
 public:
  struct Faults {
    bool restore_fails = false;    // with an error, the slot empty afterwards
    bool restore_useless = false;  // restored tokens are computed again
    bool unknown_layout = false;   // slot files of another version
    bool moves_tokens = false;     // a saved slot begins with something else than was sent (context shift)
    bool holds_answers = false;    // completions wait until this is taken back
  };

  FakeServer(boost::asio::any_io_executor loop, std::string folder, int slots)
      : loop_(loop),
        folder_(std::move(folder)),
        slots_(static_cast<std::size_t>(slots)),
        tasks_(slots_.size(), -1),
        front_(loop, HttpLimits{}, [this](Stream& client, Request& request) { return handle(client, request); }) {}

  Status start() {
    auto listening = front_.listen("127.0.0.1", 0);
    if (listening) front_.start();
    return listening;
  }
  void stop() { front_.stop(); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(front_.port()); }

  Faults faults;
  std::string weights = "w";                  // other weights compute other rows
  std::function<void(int slot)> on_complete;  // sees each completion of a request begin
  std::vector<std::string> wrong_rows;        // what restore found wrong, ever

 private:
  using Json = nlohmann::json;

  static SlotLayout layout() { return {.keys = {{1, 8}, {1, 8}}, .values = {{1, 8}, {1, 8}}}; }

  // 32 bytes for each token: the hash of all up to it.
  std::vector<std::byte> rows(std::span<const Token> tokens) const {
    std::vector<std::byte> rows;
    Sha256 chain = *sha256(std::as_bytes(std::span(weights)));
    for (const Token token : tokens) {
      std::vector<std::byte> bytes(chain.begin(), chain.end());
      const auto view = std::as_bytes(std::span(&token, 1));
      bytes.insert(bytes.end(), view.begin(), view.end());
      chain = *sha256(bytes);
      rows.insert(rows.end(), chain.begin(), chain.end());
    }
    return rows;
  }

  // Row i of array a is bytes [8 a, 8 a + 8) of the hash of token i.
  static void copy_rows(const SlotFile& file, std::span<std::byte> bytes, std::span<const std::byte> rows) {
    for (std::size_t array = 0; array < file.arrays.size(); ++array) {
      for (std::size_t i = 0; i < file.tokens.size(); ++i) {
        std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(32 * i + 8 * array), 8,
                    bytes.begin() + static_cast<std::ptrdiff_t>(file.arrays[array] + 8 * i));
      }
    }
  }

  Status save(std::size_t slot, const std::string& path) {
    std::vector<Token> tokens = slots_[slot];
    if (faults.moves_tokens && !tokens.empty()) tokens.front() += 1;
    const auto file = File::open(path, {.write = true, .create = true});
    if (!file) return fail(file.error());
    std::vector<std::byte> bytes(slot_file_bytes(layout(), 2, tokens.size()));
    const SlotFile written = write_slot_file(layout(), 2, tokens, bytes);
    copy_rows(written, bytes, rows(tokens));
    if (faults.unknown_layout) bytes[4] = std::byte{9};
    return file->write(0, bytes);
  }

  Status restore(std::size_t slot, const std::string& path) {
    slots_[slot].clear();
    if (faults.restore_fails) return fail(Code::rejected, "no available space");
    const auto file = File::open(path, {});
    if (!file) return fail(file.error());
    std::vector<std::byte> bytes(*file->size());
    if (auto read = file->read(0, bytes); !read) return read;
    const auto parsed = parse_slot_file(bytes, path);
    if (!parsed) return fail(parsed.error());
    auto expected = bytes;
    copy_rows(*parsed, expected, rows(parsed->tokens));
    if (expected != bytes) wrong_rows.push_back(path);
    slots_[slot] = parsed->tokens;
    return {};
  }

  static Task<bool> answer(Stream& client, const Request& request, unsigned status, const Json& body) {
    Response response(static_cast<boost::beast::http::status>(status), request.version());
    response.body() = body.dump();
    response.keep_alive(request.keep_alive());
    response.prepare_payload();
    return send(client, std::move(response), std::chrono::seconds(10));
  }

  static std::vector<Token> tokenize(const std::string& text) {
    std::vector<Token> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

  static Json completion(std::size_t slot, std::size_t cached, std::size_t computed) {
    const Json timings{{"cache_n", cached}, {"prompt_n", computed}, {"prompt_ms", static_cast<double>(computed)}};
    return {{"content", "!"}, {"id_slot", slot}, {"timings", timings}};
  }

  // The one that shares most, as the server does where no slot is named; else the one used longest ago.
  std::size_t choose(std::span<const Token> tokens) const {
    const auto worth = [&](std::size_t slot) { return std::pair(common_prefix(slots_[slot], tokens), -tasks_[slot]); };
    std::size_t best = 0;
    for (std::size_t slot = 1; slot < slots_.size(); ++slot) {
      if (worth(slot) > worth(best)) best = slot;
    }
    return best;
  }

  // What all messages say, as one prompt.
  static Json prompt_of(const Json& body) {
    std::string prompt;
    for (const Json& message : body.at("messages")) {
      for (const Json& part : message.at("content")) {
        prompt += part.is_object() ? part.at("text").get<std::string>() : part.get<std::string>();
      }
    }
    return {{"prompt", prompt}};
  }

  static Json message(std::size_t cached, std::size_t computed) {
    return {{"content", "!"}, {"usage", {{"cache_read_input_tokens", cached}, {"input_tokens", computed}}}};
  }

  Task<bool> complete(Stream& client, const Request& request, Json body) {
    const bool named = body.contains("id_slot");
    const auto begin = body.at("prompt").is_string() ? tokenize(body["prompt"].get<std::string>())
                                                     : body["prompt"].get<std::vector<Token>>();
    const auto slot = named ? body["id_slot"].get<std::size_t>() % slots_.size() : choose(begin);
    tasks_[slot] = ++last_task_;
    if (on_complete) on_complete(static_cast<int>(slot));
    boost::asio::steady_timer timer(loop_);
    while (faults.holds_answers) {
      timer.expires_after(std::chrono::milliseconds(1));
      co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    auto tokens = begin;
    std::size_t cached = 0;
    const auto& held = slots_[slot];
    while (cached < held.size() && cached + 1 < tokens.size() && held[cached] == tokens[cached]) ++cached;
    if (faults.restore_useless) cached = 0;
    const std::size_t computed = tokens.size() - cached;
    tokens.push_back('!');
    slots_[slot] = std::move(tokens);
    const bool as_message = request.target() == "/v1/messages";
    const Json said = as_message ? message(cached, computed) : completion(slot, cached, computed);
    co_return co_await answer(client, request, 200, said);
  }

  Json slot_list() const {
    Json list = Json::array();
    for (std::size_t i = 0; i < slots_.size(); ++i) list.push_back({{"id", i}, {"id_task", tasks_[i]}});
    return list;
  }

  Status act(const std::string& target, const Json& body) {
    const auto slot = static_cast<std::size_t>(std::stoi(target.substr(7))) % slots_.size();
    const std::string path = folder_ + "/" + body.value("filename", "none");
    if (target.ends_with("=save")) return save(slot, path);
    if (target.ends_with("=restore")) return restore(slot, path);
    if (target.ends_with("=erase")) slots_[slot].clear();
    return {};
  }

  // Not a coroutine: GCC 12 cannot have lists of strings in one.
  Task<bool> handle(Stream& client, Request& request) {
    const std::string target(request.target().data(), request.target().size());
    const Json body = Json::parse(request.body(), nullptr, false);
    if (target == "/props") {
      return answer(client, request, 200,
                    {{"model_path", folder_ + "/model.gguf"},
                     {"total_slots", slots_.size()},
                     {"build_info", "fake"},
                     {"default_generation_settings", {{"n_ctx", 4096}}}});
    }
    if (target == "/tokenize") {
      return answer(client, request, 200, {{"tokens", tokenize(body.at("content").get<std::string>())}});
    }
    if (target == "/completion") return complete(client, request, body);
    if (target == "/apply-template") return answer(client, request, 200, prompt_of(body));
    if (target == "/v1/messages") return complete(client, request, prompt_of(body));
    if (target == "/slots") return answer(client, request, 200, slot_list());
    if (target.starts_with("/slots/")) {
      const Status done = act(target, body);
      if (!done) return answer(client, request, 400, {{"error", {{"message", done.error().message}}}});
    }
    return answer(client, request, 200, Json::object());
  }

  boost::asio::any_io_executor loop_;
  std::string folder_;
  std::vector<std::vector<Token>> slots_;
  std::vector<std::int64_t> tasks_;  // the last of each slot
  std::int64_t last_task_ = 0;
  Front front_;
};

}  // namespace artesian
