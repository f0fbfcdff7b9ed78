// A client of llama-server, or of a gateway before it, that takes the time to the first piece of text: what
// `artesian bench gateway` asks with.
//
// Threads: one. Calls block and run the client's own loop meanwhile; SIGINT and SIGTERM end a call with Code::retry and
// every one after it, so that what was started is taken down again.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gateway/http.h"

namespace artesian::bench {

struct ChatAnswer {
  double first_seconds = 0;  // from the call to the first piece of text
  std::string text;
  std::uint64_t cached = 0, computed = 0;  // tokens of the prompt
  std::uint64_t restored = 0;              // as the gateway's header says
  double restore_seconds = 0;              // the same
  std::uint64_t prompt() const { return cached + computed; }
};

// "http://127.0.0.1:port"
using Url = std::string;

class GatewayClient {
 public:
  explicit GatewayClient(const Clock& clock);

  // POST /v1/chat/completions, streamed. rejected with what the server says if it is not 200.
  Result<ChatAnswer> chat(const Url& url, const std::string& body);
  // All of them, so many at a time, each client taking the next one when it has its answer. The seconds that all took.
  Result<double> chat_all(const Url& url, const std::vector<std::string>& bodies, std::uint32_t clients);
  // Any other call; its body. rejected if it is not answered with 200.
  Result<std::string> call(const Url& url, const std::string& method, const std::string& target,
                           const std::string& body = "");

  Status pause(Nanos time);
  Result<std::uint16_t> free_port();

 private:
  Result<ServerAddress> address_of(const Url& url) const;
  Status run(Task<void> task);

  const Clock& clock_;
  boost::asio::io_context loop_{1};
  boost::asio::signal_set signals_;
  bool interrupted_ = false;
};

}  // namespace artesian::bench
