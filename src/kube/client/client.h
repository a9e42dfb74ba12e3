// Client: the Kubernetes API over HTTP/2, on the thread of its owner.
//
//   TRY(std::unique_ptr<Client> client, Client::make(access, {}));
//   client->call(…);                       // see call.h
//   while (running) client->turn(Duration(1'000));
//
// Four lanes, each a connection of its own: reads, writes, leases, watches. HTTP/1.1 where the
// server knows no better. It does not log and does not retry what is not marked as idempotent; it
// reads tokens again by itself, runs exec plug-ins beside, and repeats a call once after a 401.
//
// What is lost with a connection is told apart: `not_sent` for what never left, `unknown` for what
// did. A connection with work on it that is silent for 30 s is asked for a sign of life; after 15 s
// more without one it is given up, and everything on it ends. (Of HTTP/2's own PING, libcurl 7.88
// sends none in this mode.)
//
// Thread-safety: wake() and post() from any thread; all else from one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/quantity.h"
#include "base/result.h"
#include "kube/client/access.h"
#include "kube/client/call.h"
#include "kube/client/clock.h"

namespace berth::kube {

struct ClientOptions {
  std::string user_agent = "berth";
  std::uint64_t seed = 0;        // of the jitter
  const Clock* clock = nullptr;  // null: the machine's
  Duration connect_timeout{10'000};
  Duration silence{30'000};   // before a sign of life is asked for
  Duration patience{15'000};  // for it
};

// What has happened since the start, for metrics.
struct ClientFigures {
  std::uint64_t calls = 0;  // tries that were handed to a connection
  std::uint64_t answers = 0;
  std::uint64_t retries = 0;
  std::uint64_t unknown = 0;  // calls that ended so
  std::uint64_t not_sent = 0;
  std::uint64_t connections = 0;  // opened
  std::uint64_t lost_lanes = 0;   // given up for silence
  std::uint64_t received_bytes = 0;
};

class Client : public Caller {
 public:
  // Touches no network. Errors: those of credentials that can be seen at once (a certificate that
  // has expired, a key that is none, a file that cannot be read).
  static Result<std::unique_ptr<Client>> make(Access access, const ClientOptions& options);

  // Waits at most so long for something to happen, does what is due and runs callbacks.
  virtual void turn(Duration most) = 0;
  // Ends the wait of turn(), now or the next one.
  virtual void wake() = 0;
  // Runs a task in turn().
  virtual void post(Task task) = 0;

  virtual Timers& timers() = 0;
  virtual Chance& chance() = 0;
  virtual const Access& access() const = 0;
  virtual ClientFigures figures() const = 0;
  // Why there are no usable credentials at the moment, in one sentence; empty: there are.
  virtual std::string trouble() const = 0;
};

}  // namespace berth::kube
