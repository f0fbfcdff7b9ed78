#include "bench/gateway_client.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <nlohmann/json.hpp>

#include "gateway/prompt.h"

namespace artesian::bench {

namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using nlohmann::json;

constexpr auto as_values = net::as_tuple(net::use_awaitable);
constexpr auto answer_time_max = std::chrono::minutes(20);  // a long prompt of a large model on few cores

double seconds_of(Nanos time) {
  return std::chrono::duration<double>(time).count();
}

// The text of an event of a stream; empty for one without.
std::string event_text(std::string_view line) {
  constexpr std::string_view prefix = "data: ";
  if (!line.starts_with(prefix)) return {};
  const json event = json::parse(line.substr(prefix.size()), nullptr, false);
  if (!event.is_object() || !event.contains("choices") || !event["choices"].is_array()) return {};
  for (const json& choice : event["choices"]) {
    const json delta = choice.value("delta", json::object());
    if (delta.is_object() && delta.contains("content") && delta["content"].is_string()) return delta["content"];
  }
  return {};
}

// Takes a stream in, piece by piece.
class StreamReader {
 public:
  StreamReader(const Clock& clock, ChatAnswer& answer) : clock_(clock), begin_(clock.now()), answer_(answer) {}

  void take(std::string_view piece) {
    body_.append(piece);
    for (auto end = body_.find('\n', at_); end != std::string::npos; end = body_.find('\n', at_)) {
      const std::string text = event_text(std::string_view(body_).substr(at_, end - at_));
      at_ = end + 1;
      if (!text.empty() && answer_.text.empty()) answer_.first_seconds = seconds_of(clock_.now() - begin_);
      answer_.text += text;
    }
  }

  Status finish() {
    const auto timings = find_timings(body_);
    if (!timings) return fail(Code::rejected, "an answer without timings: {}", body_.substr(0, 300));
    answer_.cached = timings->cached;
    answer_.computed = timings->computed;
    if (answer_.text.empty()) return fail(Code::rejected, "an answer without text");
    return {};
  }
  const std::string& body() const { return body_; }

 private:
  const Clock& clock_;
  Nanos begin_;
  ChatAnswer& answer_;
  std::string body_;
  std::size_t at_ = 0;
};

template <typename Header>
double number_in(const Header& header, std::string_view name) {
  const auto value = header[{name.data(), name.size()}];
  return value.empty() ? 0 : std::strtod(std::string(value.data(), value.size()).c_str(), nullptr);
}

Request chat_request(const ServerAddress& address, const std::string& body) {
  Request request(http::verb::post, "/v1/chat/completions", 11);
  request.set(http::field::host, address.host);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  request.body() = body;
  request.prepare_payload();
  return request;
}

Task<Status> ask_streamed(ServerAddress address, const std::string& body, const Clock& clock, ChatAnswer& answer) {
  Stream stream(co_await net::this_coro::executor);
  stream.expires_after(answer_time_max);
  StreamReader reader(clock, answer);
  const Request request = chat_request(address, body);
  auto [connect_error] = co_await stream.async_connect(address.endpoint, as_values);
  if (connect_error) co_return fail(Code::retry, "cannot be reached: {}", connect_error.message());
  auto [write_error, written] = co_await http::async_write(stream, request, as_values);
  if (write_error) co_return fail(Code::device_failed, "broke off: {}", write_error.message());
  boost::beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  auto [header_error, header_bytes] = co_await http::async_read_header(stream, buffer, parser, as_values);
  if (header_error) co_return fail(Code::device_failed, "broke off: {}", header_error.message());
  std::vector<char> piece(64 * 1024);
  while (!parser.is_done()) {
    parser.get().body().data = piece.data();
    parser.get().body().size = piece.size();
    auto [error, bytes] = co_await http::async_read_some(stream, buffer, parser, as_values);
    if (error && error != http::error::need_buffer)
      co_return fail(Code::device_failed, "broke off: {}", error.message());
    reader.take(std::string_view(piece.data(), piece.size() - parser.get().body().size));
  }
  if (parser.get().result() != http::status::ok) {
    co_return fail(Code::rejected, "answers {}: {}", parser.get().result_int(), reader.body().substr(0, 300));
  }
  answer.restored = static_cast<std::uint64_t>(number_in(parser.get(), "X-Artesian-Restored-Tokens"));
  answer.restore_seconds = number_in(parser.get(), "X-Artesian-Restore-Ms") / 1000;
  co_return reader.finish();
}

}  // namespace

GatewayClient::GatewayClient(const Clock& clock) : clock_(clock), signals_(loop_, SIGINT, SIGTERM) {
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    interrupted_ = true;
    loop_.stop();
  });
}

Result<ServerAddress> GatewayClient::address_of(const Url& url) const {
  if (interrupted_) return fail(Code::retry, "interrupted");
  return parse_address(url);
}

// Runs the loop until the task is done.
Status GatewayClient::run(Task<void> task) {
  bool done = false;
  net::co_spawn(loop_, std::move(task), [&done](const std::exception_ptr& error) {
    done = true;
    if (error) std::rethrow_exception(error);
  });
  loop_.restart();
  while (!done && !interrupted_) loop_.run_one();
  if (interrupted_) return fail(Code::retry, "interrupted");
  return {};
}

Result<ChatAnswer> GatewayClient::chat(const Url& url, const std::string& body) {
  auto address = address_of(url);
  if (!address) return fail(std::move(address.error()));
  // What an interrupted coroutine refers to lives until the loop is gone.
  struct State {
    std::string body;
    ChatAnswer answer;
    Status status;
  };
  auto state = std::make_shared<State>(State{body, {}, {}});
  const auto task = [](std::shared_ptr<State> own, ServerAddress to, const Clock& clock) -> Task<void> {
    own->status = co_await ask_streamed(std::move(to), own->body, clock, own->answer);
  };
  if (auto ran = run(task(state, std::move(*address), clock_)); !ran) return fail(std::move(ran.error()));
  if (!state->status) return fail(state->status.error().code, "{}: {}", url, state->status.error().message);
  return std::move(state->answer);
}

Result<double> GatewayClient::chat_all(const Url& url, const std::vector<std::string>& bodies, std::uint32_t clients) {
  auto address = address_of(url);
  if (!address) return fail(std::move(address.error()));
  struct State {
    std::vector<std::string> bodies;
    ServerAddress address;
    std::size_t next = 0;
    std::uint32_t left = 0;
    Status failed;
  };
  auto state =
      std::make_shared<State>(State{.bodies = bodies, .address = std::move(*address), .left = clients, .failed = {}});
  const auto client = [](std::shared_ptr<State> own, const Clock& clock) -> Task<void> {
    while (own->next < own->bodies.size() && own->failed) {
      ChatAnswer answer;
      const std::string& body = own->bodies[own->next++];
      Status asked = co_await ask_streamed(own->address, body, clock, answer);
      if (!asked) own->failed = std::move(asked);
    }
    --own->left;
  };
  const Nanos begin = clock_.now();
  for (std::uint32_t i = 0; i < clients; ++i) net::co_spawn(loop_, client(state, clock_), net::detached);
  loop_.restart();
  while (state->left > 0 && !interrupted_) loop_.run_one();
  if (interrupted_) return fail(Code::retry, "interrupted");
  if (!state->failed) return fail(state->failed.error().code, "{}: {}", url, state->failed.error().message);
  return seconds_of(clock_.now() - begin);
}

Result<std::string> GatewayClient::call(const Url& url, const std::string& method, const std::string& target,
                                        const std::string& body) {
  auto address = address_of(url);
  if (!address) return fail(std::move(address.error()));
  struct State {
    Upstream server;
    Result<Answer> answer = fail(Code::retry, "no answer");
  };
  auto state = std::make_shared<State>(State{Upstream(loop_.get_executor(), std::move(*address), HttpLimits{})});
  const auto task = [](std::shared_ptr<State> own, std::string how, std::string where, std::string what) -> Task<void> {
    own->answer = co_await own->server.ask(std::move(how), std::move(where), std::move(what), "", answer_time_max);
  };
  if (auto ran = run(task(state, method, target, body)); !ran) return fail(std::move(ran.error()));
  if (!state->answer) return fail(state->answer.error().code, "{}{}: {}", url, target, state->answer.error().message);
  if (state->answer->status != 200) {
    return fail(Code::rejected, "{}{}: answers {}: {}", url, target, state->answer->status,
                state->answer->body.substr(0, 300));
  }
  return std::move(state->answer->body);
}

Status GatewayClient::pause(Nanos time) {
  const auto task = [](net::any_io_executor loop, Nanos wait) -> Task<void> {
    net::steady_timer timer(loop, wait);
    co_await timer.async_wait(as_values);
  };
  return run(task(loop_.get_executor(), time));
}

Result<std::uint16_t> GatewayClient::free_port() {
  boost::system::error_code error;
  net::ip::tcp::acceptor acceptor(loop_);
  acceptor.open(net::ip::tcp::v4(), error);
  if (!error) acceptor.bind({net::ip::address_v4::loopback(), 0}, error);
  const auto port = error ? 0 : acceptor.local_endpoint(error).port();
  if (error) return fail(Code::rejected, "no port of this machine is free: {}", error.message());
  return port;
}

}  // namespace artesian::bench
