// Channel: the connection of one lane; a libcurl multi handle on our poller.
//
// Exchanges are added and taken off between its callbacks only, never inside one: libcurl forbids
// it. Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_set>

#include "base/quantity.h"
#include "kube/client/clock.h"
#include "kube/client/exchange.h"
#include "kube/client/poller.h"

namespace berth::kube {

class Channel final : public Watcher {
 public:
  // `most_connections`: for HTTP/1.1, where each exchange needs one; HTTP/2 needs one for all.
  Channel(Poller& poller, const Clock& clock, long most_connections);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void add(Exchange& exchange);
  // Takes one off before its end. Only this exchange is told to the server as given up.
  void remove(Exchange& exchange);
  // One that has ended and is off now; empty: none.
  struct Ended {
    Exchange* exchange = nullptr;
    int curl_result = 0;
  };
  std::optional<Ended> next_ended();

  // Closes every connection. Requires: nothing is on it.
  void renew();

  void on_ready(int fd, bool readable, bool writable) override;
  // Runs what libcurl wants run by now.
  void run_due();
  std::optional<Duration> until_due() const;
  std::size_t on_it() const { return exchanges_; }

 private:
  friend struct ChannelHooks;
  void open();
  void close();

  Poller& poller_;
  const Clock& clock_;
  long most_connections_;
  void* multi_ = nullptr;
  std::size_t exchanges_ = 0;
  std::optional<Time> due_;
  std::unordered_set<int> watched_;
};

}  // namespace berth::kube
