// The HTTP of this room, all of it on Boost.Beast and Asio: a connection to the server for each call, and the relay
// that hands an answer on as it comes.
//
// Threads: everything runs on one io_context that one thread runs. Ownership: references given to a coroutine live
// until it is done. Errors: retry where the server cannot be reached, device_failed where it breaks off or is silent
// too long.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "base/executor.h"
#include "base/result.h"

namespace artesian {

template <typename T>
using Task = boost::asio::awaitable<T>;
using Stream = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;
using Request = boost::beast::http::request<boost::beast::http::string_body>;
using Response = boost::beast::http::response<boost::beast::http::string_body>;
using Fields = boost::beast::http::fields;
using Duration = std::chrono::steady_clock::duration;

struct HttpLimits {
  std::uint32_t header_bytes_max = 64 * 1024;
  std::uint64_t body_bytes_max = 64 << 20;
  std::uint32_t connections_max = 1024;
  Duration header_time_max = std::chrono::seconds(60);  // idle, and for the whole header
  Duration body_time_max = std::chrono::seconds(120);   // of a request
  Duration write_time_max = std::chrono::seconds(120);  // for a client to take a piece of an answer
  Duration connect_time_max = std::chrono::seconds(5);  // to the server
  Duration silence_max = std::chrono::seconds(900);     // of the server, in the middle of a request
};

// Where the server listens: "http://host:port", or "unix:" and the path of a socket.
struct ServerAddress {
  boost::asio::generic::stream_protocol::endpoint endpoint;
  std::string host;  // for the Host header of our own calls
};
Result<ServerAddress> parse_address(const std::string& url);

// Tells a request that its client is gone, while nothing is read from the client.
class ClientWatch : public std::enable_shared_from_this<ClientWatch> {
 public:
  static std::shared_ptr<ClientWatch> start(Stream& client);
  explicit ClientWatch(Stream& client) : client_(&client) {}

  bool gone() const { return gone_; }
  // Called at once when the client goes (or is gone already); one at a time.
  void on_gone(std::function<void()> action);
  // Before the client is read from again, or is closed.
  void stop();

 private:
  Task<void> watch(std::shared_ptr<ClientWatch> self);

  Stream* client_;  // null once stopped
  bool gone_ = false;
  std::function<void()> action_;
};

struct Answer {
  unsigned status = 0;
  std::string body;
};

// How a relayed request ended.
struct Relayed {
  bool answered = false;       // the server's answer began
  bool whole = false;          // and was handed on to its end
  bool client_usable = false;  // another request may follow on the connection
  unsigned status = 0;
  std::string begin, end;  // the first bytes of the body, and the last
  Duration first_byte{0};  // from the call to the first byte of the body
};

class Upstream {
 public:
  Upstream(boost::asio::any_io_executor executor, ServerAddress address, HttpLimits limits)
      : executor_(std::move(executor)), address_(std::move(address)), limits_(limits) {}

  // A call of our own; its whole answer. `authorization` is the value of that header, or empty.
  Task<Result<Answer>> ask(std::string method, std::string target, std::string body, std::string authorization,
                           Duration time_max);

  // Hands `request` on, with another body if one is given, and the answer back, `extra` added to its header. Answers
  // 502 or 503 itself where the server cannot.
  Task<Relayed> relay(Stream& client, const Request& request, const std::string& body, const Fields& extra,
                      ClientWatch& watch);

  const HttpLimits& limits() const { return limits_; }

 private:
  Task<Result<std::unique_ptr<Stream>>> connect();
  Task<Relayed> hand_on(Stream& server, Stream& client, const Request& request, const Fields& extra);

  boost::asio::any_io_executor executor_;
  ServerAddress address_;
  HttpLimits limits_;
};

// An answer of our own, as the server's errors look.
Response error_answer(const Request& request, unsigned status, const std::string& message);
// Writes it; false when the connection cannot be used any more.
Task<bool> send(Stream& client, Response response, Duration time_max);

}  // namespace artesian
