// An HTTP/1.1 server on Unix sockets and on TCP with TLS and bearer tokens: one thread, thousands
// of waiting clients.
//
//   ServerOptions options{.listen = {"unix:/run/berth/berth.sock"}};
//   TRY(auto server, net::Server::start(std::move(options), handler));
//   ...
//   server->stop();
//
// Guarantees
//   1. Over TCP nothing reaches the handler without a token unless `anyone` may call; plain TCP is
//      refused, except on the loopback addresses if `allow_plain_loopback` says so (and then with a
//      token still), or where `anyone` and `plain_anywhere` allow both.
//   2. A waiting connection costs no buffer; a slow one is bounded in bytes and time.
//   3. A socket file is replaced only if nobody listens on it.
//   4. After stop() the handler is not called any more, and the socket files that start() made are
//      gone.
// Thread-safety: all functions may be called from any thread but the I/O thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "net/reply.h"

namespace berth::net {

// A listening socket that somebody else opened for us.
struct InheritedSocket {
  int fd = -1;
  std::string name = {};  // of the unit in LISTEN_FDNAMES, for messages
};

// The sockets that systemd passed to this process (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES), marked
// close-on-exec; the variables are taken out of the environment so that no child believes they are
// its own. Call it before threads start. Empty if there are none or they are another process's.
std::vector<InheritedSocket> take_inherited_sockets();

// Raises this process's soft limit of open files towards `wanted`, as far as the hard limit goes: a
// shell's usual 1024 leave room for some 900 connections. Returns the soft limit as it was;
// programs that this process starts should get it back, since select() fails beyond 1024.
std::size_t raise_open_files(std::size_t wanted);

// The limit of one call's body where it differs from that of all others.
struct BodyLimit {
  std::string method = {};
  std::string path = {};  // as sent, without the query
  std::size_t bytes = 0;
};

struct ServerOptions {
  // "unix:/path", "host:port" (also "[::1]:8443", ":8443" for every address). Port 0 lets the
  // system choose. An address that an inherited socket is bound to is taken over, not bound again.
  std::vector<std::string> listen = {};
  // What take_inherited_sockets() gave. Those that no address in `listen` names are served too.
  std::vector<InheritedSocket> inherited = {};
  mode_t unix_mode = 0666;                     // callers are known by their credentials
  std::vector<std::uint32_t> admin_uids = {};  // besides root and the server's own user

  // TCP only.
  std::string token_file = {};        // see net/token.h
  std::string certificate_file = {};  // PEM: the chain, the server's own certificate first
  std::string key_file = {};          // PEM
  bool allow_plain_loopback = false;
  std::string certificate = {};  // PEM texts instead of the two files
  std::string key = {};
  // Nobody is asked for a token: callers over TCP are all the same nameless one. For services whose
  // callers have none (admission webhooks) and for what is no secret and changes nothing.
  bool anyone = false;
  // With `anyone`: plain TCP on every address, as probes and scrapers of a cluster expect it.
  bool plain_anywhere = false;

  std::size_t header_limit = std::size_t{16} * 1024;  // bytes
  std::size_t body_limit = std::size_t{64} * 1024;
  std::vector<BodyLimit> body_limits = {};
  // Bodies above body_limit that may be on their way at once; one more gets 503.
  std::size_t most_large_bodies = 32;
  std::size_t stream_buffer =
      std::size_t{256} * 1024;  // bytes that may wait for one client of a stream
  // Beyond it a client gets 503. Lowered to what the limit of open files allows.
  std::size_t max_connections = 8192;
  // Of one local user who is no admin; 0: three quarters of max_connections.
  std::size_t max_connections_per_user = 0;

  Duration idle_timeout{75'000};    // between requests
  Duration header_timeout{10'000};  // from the first byte of a request, or of a TLS handshake
  Duration body_timeout{30'000};
  Duration write_timeout{30'000};  // without one byte taken by the client
  Duration linger{2'000};          // to take what a client still sends after its last answer
  Duration probe_after{60'000};    // TCP: of silence, then up to as long again; at least a second
  Duration heartbeat{15'000};      // contract leases 3.1: comment line in event streams; 0: none
  Duration stop_grace{1'000};      // stop() waits as long for answers to leave
};

struct ServerCounts {
  std::size_t most_connections = 0;   // what max_connections came to
  std::size_t connections = 0;        // open now
  std::uint64_t accepted = 0;         // since the start, and so the following
  std::uint64_t refused = 0;          // because there were too many
  std::uint64_t requests = 0;         // delivered to the handler
  std::uint64_t failed_requests = 0;  // because the handler threw
  std::uint64_t bad_requests = 0;     // answered 4xx by the server itself
  std::uint64_t cut_off = 0;          // too slow or never reading
};

class Server {
 public:
  // The handler must outlive the server. Errors name the address and the next step:
  // invalid_argument (an address or an option), conflict (somebody listens there: who),
  // unavailable (the system refuses), not_found (a file or folder that is named is not there).
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Handler& handler);

  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Ends every stream, answers what waits with 503 `not-ready`, closes everything. Idempotent.
  void stop();

  // Reads the token file and the certificate again. On an error all stays as it was. Callers whose
  // token is gone or has another role now are refused from then on; what they have open is closed.
  // Unavailable: it stops, or has.
  Result<void> reload();
  // Serves new connections with another certificate (PEM). On an error all stays as it was.
  Result<void> replace_certificate(const std::string& certificate, const std::string& key);

  // Where it listens, in the form that Client::connect takes, with the ports chosen by the system.
  std::vector<std::string> addresses() const;

  ServerCounts counts() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::net
