// An HTTP/1.1 client that blocks, with deadlines: what every verb of the command line speaks
// through, and what fetches metrics of exporters.
//
//   TRY(Client client, Client::connect("unix:/run/berth/berth.sock"));
//   TRY(Response leases, client.call({.method = "GET", .target = "/v1/leases"}));
//
// A connection is kept between calls and opened anew when the server has closed it. TLS is touched
// only for https. Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "net/message.h"
#include "net/sse.h"

namespace berth::net {

struct ClientOptions {
  std::string token = {};    // bearer token; never sent over plain TCP beyond this machine
  std::string ca_file = {};  // PEM, instead of the system's; https only
  Duration connect_timeout{5'000};
  std::size_t body_limit = std::size_t{64} * 1024 * 1024;  // of one answer
  // A descriptor that ends a call with `Client::interrupted()` when it becomes readable, for
  // instance a signalfd; nothing is read from it. -1: none.
  int interrupt_fd = -1;
};

struct Call {
  std::string method = "GET";
  std::string target = "/";  // path and query, encoded
  std::string body = {};
  std::string content_type = "application/json";  // of a body that is not empty
  std::vector<Header> headers = {};
  Duration timeout{30'000};  // for all of it
};

struct StreamCall {
  std::string target = "/";
  std::string last_event_id = {};
  // Events of a text/event-stream; false ends the call.
  std::function<bool(const SseEvent&)> on_event = {};
  // Instead: the raw body in pieces.
  std::function<bool(std::string_view)> on_chunk = {};
  // Called every `tick` without regard to what arrives, for a status line; false ends the call.
  std::function<bool()> on_tick = {};
  Duration tick{1'000};
  // Without one byte (comment lines count) for so long the server is taken for dead.
  Duration silence{45'000};
};

class Client {
 public:
  // "unix:/path", "https://host:port", "http://host:port", the latter two with an optional path
  // that is put before every target. Connects at once, so that the error comes at once.
  static Result<Client> connect(const std::string& address, ClientOptions options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Any status is an answer, not an error. Errors: unavailable (no connection, or it broke; whether
  // the request was carried out is then unknown), exhausted (the deadline, or the size of the
  // answer), invalid_argument (a target with spaces or line ends).
  Result<Response> call(const Call& call);

  // Reads a stream until its end or until a callback says false. An answer other than 2xx comes
  // back whole and calls nobody. The connection is not used again.
  Result<Response> stream(const StreamCall& call);

  // True if the last error came from interrupt_fd.
  bool interrupted() const;

 private:
  friend class StreamReader;
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Whether a server listens there; opens and closes one connection.
bool is_listening(const std::string& address);

}  // namespace berth::net
