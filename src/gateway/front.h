// The door that clients come in by: listens, reads requests within limits, and hands them to a handler one after the
// other for each connection.
//
// Threads: on the loop. Ownership: the handler lives until the loop is gone.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>

#include "gateway/http.h"

namespace artesian {

class Front {
 public:
  // Answers the request; false when the connection is to be closed.
  using Handler = std::function<Task<bool>(Stream& client, Request& request)>;

  Front(boost::asio::any_io_executor loop, HttpLimits limits, Handler handler)
      : acceptor_(std::move(loop)), limits_(limits), handler_(std::move(handler)) {}

  // Port 0: one that is free, see port(). invalid if the host is not an address of this machine or the port is taken.
  Status listen(const std::string& host, std::uint16_t port);
  std::uint16_t port() const;
  void start();
  void stop();  // no new connections

 private:
  Task<void> accept();
  Task<void> serve(std::shared_ptr<Stream> client);
  Task<void> talk(Stream& client);
  Task<bool> one_request(Stream& client, boost::beast::flat_buffer& buffer);

  boost::asio::ip::tcp::acceptor acceptor_;
  HttpLimits limits_;
  Handler handler_;
  std::uint32_t connections_ = 0;
};

// Whether only programs of this machine reach it.
bool is_loopback(const std::string& host);

}  // namespace artesian
