#include "gateway/front.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

namespace artesian {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using namespace std::chrono_literals;
using beast::error_code;

constexpr auto as_values = net::as_tuple(net::use_awaitable);
constexpr std::size_t leftover_bytes_max = 4 << 20;  // that a refused client may still send before it reads our answer
constexpr auto leftover_time_max = 2s;

unsigned status_of(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == beast::error::timeout) return 408;
  return 400;
}

// A client that is refused in the middle of its request sees the answer only if the rest is taken.
Task<void> drain(Stream& client) {
  error_code ignored;
  client.socket().shutdown(net::socket_base::shutdown_send, ignored);
  std::vector<char> bytes(64 * 1024);
  client.expires_after(leftover_time_max);
  for (std::size_t taken = 0; taken < leftover_bytes_max;) {
    auto [error, count] = co_await client.async_read_some(net::buffer(bytes), as_values);
    if (error) break;
    taken += count;
  }
}

bool has_two_lengths(const Request& request) {
  const auto lengths = request.count(http::field::content_length);
  return lengths > 1 || (lengths == 1 && request.count(http::field::transfer_encoding) > 0);
}

Result<net::ip::tcp::endpoint> resolve(const std::string& host, std::uint16_t port) {
  net::io_context context;
  net::ip::tcp::resolver resolver(context);
  error_code error;
  const auto found = resolver.resolve(host, std::to_string(port), net::ip::tcp::resolver::passive, error);
  if (error || found.empty()) return fail(Code::invalid, "--host {}: is not known: {}", host, error.message());
  return found.begin()->endpoint();
}

}  // namespace

bool is_loopback(const std::string& host) {
  const auto endpoint = resolve(host, 0);
  return endpoint && endpoint->address().is_loopback();
}

Status Front::listen(const std::string& host, std::uint16_t port) {
  const auto endpoint = resolve(host, port);
  if (!endpoint) return fail(endpoint.error());
  error_code error;
  acceptor_.open(endpoint->protocol(), error);
  if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(*endpoint, error);
  if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
  if (error) return fail(Code::invalid, "--host {} --port {}: cannot listen there: {}", host, port, error.message());
  return {};
}

std::uint16_t Front::port() const {
  error_code ignored;
  return acceptor_.local_endpoint(ignored).port();
}

void Front::start() {
  net::co_spawn(acceptor_.get_executor(), accept(), net::detached);
}

void Front::stop() {
  error_code ignored;
  acceptor_.close(ignored);
}

Task<void> Front::accept() {
  net::steady_timer timer(acceptor_.get_executor());
  while (acceptor_.is_open()) {
    auto [error, socket] = co_await acceptor_.async_accept(as_values);
    if (error) {
      // Out of descriptors, for example: what is open goes on, and some of it ends.
      timer.expires_after(50ms);
      co_await timer.async_wait(as_values);
      continue;
    }
    error_code ignored;
    socket.set_option(net::ip::tcp::no_delay(true), ignored);
    auto client = std::make_shared<Stream>(net::generic::stream_protocol::socket(std::move(socket)));
    net::co_spawn(acceptor_.get_executor(), serve(std::move(client)), net::detached);
  }
}

Task<void> Front::serve(std::shared_ptr<Stream> client) {
  if (connections_ >= limits_.connections_max) {
    Request none;
    none.keep_alive(false);
    co_await send(*client, error_answer(none, 503, "too many connections"), 1s);
    co_return;
  }
  ++connections_;
  try {
    co_await talk(*client);
  } catch (const std::exception&) {
    // Memory ran out, or a bug: this connection ends, others do not notice.
  }
  --connections_;
}

Task<void> Front::talk(Stream& client) {
  beast::flat_buffer buffer;
  while (co_await one_request(client, buffer)) {
  }
  error_code ignored;
  client.socket().shutdown(net::socket_base::shutdown_send, ignored);
}

Task<bool> Front::one_request(Stream& client, beast::flat_buffer& buffer) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(limits_.header_bytes_max);
  parser.body_limit(limits_.body_bytes_max);
  client.expires_after(limits_.header_time_max);
  auto [error, bytes] = co_await http::async_read_header(client, buffer, parser, as_values);
  if (!error && has_two_lengths(parser.get())) error = http::error::bad_content_length;
  if (!error) {
    client.expires_after(limits_.body_time_max);
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      std::tie(error, bytes) = co_await net::async_write(client, net::buffer(go_on), as_values);
    }
  }
  if (!error) std::tie(error, bytes) = co_await http::async_read(client, buffer, parser, as_values);
  if (!error) {
    client.expires_never();
    Request request = parser.release();
    co_return co_await handler_(client, request);
  }
  // Nothing came: a connection that was kept open and is not needed any more.
  if (!parser.got_some()) co_return false;
  Request refused;
  refused.keep_alive(false);
  co_await send(client, error_answer(refused, status_of(error), "the request is not understood: " + error.message()),
                limits_.write_time_max);
  co_await drain(client);
  co_return false;
}

}  // namespace artesian
