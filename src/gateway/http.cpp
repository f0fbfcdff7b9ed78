#include "gateway/http.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <nlohmann/json.hpp>

namespace artesian {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using beast::error_code;

constexpr auto as_values = net::as_tuple(net::use_awaitable);
constexpr std::size_t end_bytes = 16 * 1024;   // of an answer, kept to find its timings in,
constexpr std::size_t begin_bytes = 2 * 1024;  // and its usage
constexpr std::size_t piece_bytes = 64 * 1024;

// Headers that are about one connection only; each side has its own.
bool hop_by_hop(http::field name) {
  switch (name) {
    case http::field::connection:
    case http::field::keep_alive:
    case http::field::proxy_connection:
    case http::field::te:
    case http::field::trailer:
    case http::field::transfer_encoding:
    case http::field::upgrade:
    case http::field::expect:
    case http::field::content_length:
      return true;
    default:
      return false;
  }
}

template <typename From, typename To>
void copy_fields(const From& from, To& to) {
  for (const auto& field : from) {
    if (!hop_by_hop(field.name())) to.insert(field.name(), field.name_string(), field.value());
  }
}

Request forwarded(const Request& request, const std::string& body) {
  Request copy;
  copy.method_string(request.method_string());
  copy.target(request.target());
  copy.version(11);
  copy_fields(request, copy);
  copy.set(http::field::connection, "close");
  copy.body() = body;
  // A request without a body stays one.
  if (!body.empty() || request.has_content_length() || request.chunked()) copy.content_length(body.size());
  return copy;
}

void keep_end(std::string& end, const char* bytes, std::size_t count) {
  end.append(bytes, count);
  if (end.size() > 2 * end_bytes) end.erase(0, end.size() - end_bytes);
}

}  // namespace

Result<ServerAddress> parse_address(const std::string& url) {
  if (url.starts_with("unix:")) {
    if (url.size() > 5 + 100) return fail(Code::invalid, "{}: the path of a socket has at most 100 bytes", url);
    return ServerAddress{.endpoint = net::local::stream_protocol::endpoint(url.substr(5)), .host = "localhost"};
  }
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme)) return fail(Code::invalid, "{}: takes the form http://host:port", url);
  std::string host = url.substr(scheme.size());
  if (host.ends_with('/')) host.pop_back();
  const auto colon = host.rfind(':');
  unsigned short port = 80;
  std::string name = host;
  if (colon != std::string::npos && !host.ends_with(']')) {
    const char* end = host.data() + host.size();
    const auto [stop, error] = std::from_chars(host.data() + colon + 1, end, port);
    if (error != std::errc() || stop != end) return fail(Code::invalid, "{}: takes the form http://host:port", url);
    name = host.substr(0, colon);
  }
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  net::io_context context;
  net::ip::tcp::resolver resolver(context);
  error_code error;
  const auto found = resolver.resolve(name, std::to_string(port), error);
  if (error || found.empty()) return fail(Code::not_found, "{}: the host is not known: {}", url, error.message());
  return ServerAddress{.endpoint = found.begin()->endpoint(), .host = host};
}

std::shared_ptr<ClientWatch> ClientWatch::start(Stream& client) {
  auto watch = std::make_shared<ClientWatch>(client);
  net::co_spawn(client.get_executor(), watch->watch(watch), net::detached);
  return watch;
}

// Bytes that are there already are the next request, which is not looked at before this one is answered.
Task<void> ClientWatch::watch(std::shared_ptr<ClientWatch> self) {
  auto [error] = co_await self->client_->socket().async_wait(net::socket_base::wait_read, as_values);
  if (error || self->client_ == nullptr) co_return;
  error_code ignored;
  if (self->client_->socket().available(ignored) > 0) co_return;
  self->gone_ = true;
  if (auto action = std::exchange(self->action_, nullptr)) action();
}

void ClientWatch::on_gone(std::function<void()> action) {
  action_ = std::move(action);
  if (gone_ && action_) std::exchange(action_, nullptr)();
}

void ClientWatch::stop() {
  action_ = nullptr;
  if (client_ == nullptr) return;
  error_code ignored;
  client_->socket().cancel(ignored);
  client_ = nullptr;
}

Response error_answer(const Request& request, unsigned status, const std::string& message) {
  Response response(static_cast<http::status>(status), request.version());
  const std::string_view type = status == 401                    ? "authentication_error"
                                : status == 502 || status == 503 ? "unavailable_error"
                                                                 : "invalid_request_error";
  response.set(http::field::content_type, "application/json; charset=utf-8");
  response.body() = nlohmann::json{{"error", {{"code", status}, {"message", message}, {"type", type}}}}.dump();
  response.keep_alive(request.keep_alive());
  response.prepare_payload();
  return response;
}

Task<bool> send(Stream& client, Response response, Duration time_max) {
  client.expires_after(time_max);
  const bool keep = response.keep_alive();
  auto [error, bytes] = co_await http::async_write(client, response, as_values);
  client.expires_never();
  co_return !error && keep;
}

Task<Result<std::unique_ptr<Stream>>> Upstream::connect() {
  auto stream = std::make_unique<Stream>(executor_);
  stream->expires_after(limits_.connect_time_max);
  auto [error] = co_await stream->async_connect(address_.endpoint, as_values);
  if (error) {
    co_return fail(Code::retry, "the server cannot be reached: {}", error.message());
  }
  co_return stream;
}

Task<Result<Answer>> Upstream::ask(std::string method, std::string target, std::string body, std::string authorization,
                                   Duration time_max) {
  auto server = co_await connect();
  if (!server) co_return fail(std::move(server.error()));
  Request request;
  request.method_string(method);
  request.target(target);
  request.version(11);
  request.set(http::field::host, address_.host);
  request.set(http::field::connection, "close");
  if (!authorization.empty()) request.set(http::field::authorization, authorization);
  if (method == "POST") {
    request.set(http::field::content_type, "application/json");
    request.body() = std::move(body);
    request.content_length(request.body().size());
  }
  Stream& stream = **server;
  stream.expires_after(time_max);
  auto [write_error, written] = co_await http::async_write(stream, request, as_values);
  if (write_error) co_return fail(Code::device_failed, "{}: the server broke off: {}", target, write_error.message());
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(limits_.body_bytes_max);
  auto [read_error, read] = co_await http::async_read(stream, buffer, parser, as_values);
  if (read_error) co_return fail(Code::device_failed, "{}: the server broke off: {}", target, read_error.message());
  co_return Answer{.status = parser.get().result_int(), .body = std::move(parser.get().body())};
}

Task<Relayed> Upstream::relay(Stream& client, const Request& request, const std::string& body, const Fields& extra,
                              ClientWatch& watch) {
  Relayed relayed;
  auto server = co_await connect();
  if (!server) {
    // The same as the server says while it loads: clients wait for it.
    auto answer = error_answer(request, 503, "Loading model: " + server.error().message);
    answer.set(http::field::retry_after, "1");
    relayed.client_usable = co_await send(client, std::move(answer), limits_.write_time_max);
    co_return relayed;
  }
  Stream& stream = **server;
  watch.on_gone([&stream] { stream.close(); });
  Request copy = forwarded(request, body);
  stream.expires_after(limits_.silence_max);
  // An error here is not the end: a server that answers without reading all of it has its answer there to be read.
  co_await http::async_write(stream, copy, as_values);
  relayed = co_await hand_on(stream, client, request, extra);
  watch.on_gone(nullptr);
  if (!relayed.answered && !watch.gone()) {
    auto answer = error_answer(request, 502, "the server ended in the middle of the request, or was silent too long");
    relayed.client_usable = co_await send(client, std::move(answer), limits_.write_time_max);
  }
  co_return relayed;
}

Task<Relayed> Upstream::hand_on(Stream& server, Stream& client, const Request& request, const Fields& extra) {
  Relayed relayed;
  const auto begin = std::chrono::steady_clock::now();
  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  parser.header_limit(limits_.header_bytes_max);
  parser.skip(request.method() == http::verb::head);
  do {
    server.expires_after(limits_.silence_max);
    auto [error, bytes] = co_await http::async_read_header(server, buffer, parser, as_values);
    if (error) co_return relayed;
  } while (parser.get().result() == http::status::continue_);

  http::response<http::empty_body> head(parser.get().result(), request.version());
  head.reason(parser.get().reason());
  copy_fields(parser.get().base(), head);
  for (const auto& field : extra) head.set(field.name_string(), field.value());
  const auto length = parser.content_length();
  const bool no_body = parser.is_done() && (!length || request.method() == http::verb::head);
  const bool chunked = !length && !no_body && request.version() >= 11;
  head.keep_alive(request.keep_alive() && (chunked || length || no_body));
  if (chunked) head.chunked(true);
  if (length) head.content_length(*length);
  if (no_body && !length && head.result_int() >= 200 && head.result_int() != 204 && head.result_int() != 304) {
    head.content_length(0);
  }
  relayed.answered = true;
  relayed.status = head.result_int();
  client.expires_after(limits_.write_time_max);
  http::response_serializer<http::empty_body> serializer(head);
  auto [head_error, head_bytes] = co_await http::async_write_header(client, serializer, as_values);
  if (head_error) co_return relayed;

  std::vector<char> piece(piece_bytes);
  while (!parser.is_done()) {
    parser.get().body().data = piece.data();
    parser.get().body().size = piece.size();
    server.expires_after(limits_.silence_max);
    auto [error, bytes] = co_await http::async_read_some(server, buffer, parser, as_values);
    if (error && error != http::error::need_buffer) co_return relayed;  // the client sees its answer cut off
    const std::size_t count = piece.size() - parser.get().body().size;
    if (count == 0) continue;
    if (relayed.end.empty()) relayed.first_byte = std::chrono::steady_clock::now() - begin;
    relayed.begin.append(piece.data(), std::min(count, begin_bytes - relayed.begin.size()));
    keep_end(relayed.end, piece.data(), count);
    client.expires_after(limits_.write_time_max);
    const net::const_buffer data(piece.data(), count);
    error_code write_error;
    if (chunked) {
      std::tie(write_error, bytes) = co_await net::async_write(client, http::make_chunk(data), as_values);
    } else {
      std::tie(write_error, bytes) = co_await net::async_write(client, data, as_values);
    }
    if (write_error) co_return relayed;
  }
  if (chunked) {
    auto [error, bytes] = co_await net::async_write(client, http::make_chunk_last(), as_values);
    if (error) co_return relayed;
  }
  client.expires_never();
  relayed.whole = true;
  relayed.client_usable = head.keep_alive();
  co_return relayed;
}

}  // namespace artesian
