// LaneLine: one lane's connections: the one that takes new work, and those that only finish theirs.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "kube/client/channel.h"
#include "kube/client/clock.h"
#include "kube/client/exchange.h"
#include "kube/client/poller.h"

namespace berth::kube {

class LaneLine {
 public:
  LaneLine(Poller& poller, const Clock& clock);

  // Puts an exchange on the connection for new work. It must have been prepared with heard().
  void add(Exchange& exchange);
  void remove(Exchange& exchange);
  std::optional<Channel::Ended> next_ended();
  void run_due();
  std::optional<Duration> until_due() const;

  // The connection takes nothing new: it has failed one, or the server wants it to end.
  void retire();
  // Everything that is on the lane; each must be removed before close_all().
  std::vector<Exchange*> everything() const;
  void close_all();

  std::size_t on_it() const { return on_.size(); }
  std::uint64_t& heard() { return heard_; }
  // Notes whether bytes came since the last call; then, or when nothing is on it, silence begins
  // anew.
  void listen();
  Time silent_since() const { return silent_since_; }

 private:
  struct On {
    Exchange* exchange;
    Channel* channel;
  };

  std::unique_ptr<Channel> make_channel() const;
  Channel* forget(const Exchange& exchange);

  Poller& poller_;
  const Clock& clock_;
  std::unique_ptr<Channel> channel_;
  std::vector<std::unique_ptr<Channel>> retired_;
  std::vector<On> on_;
  std::uint64_t heard_ = 0;
  std::uint64_t heard_before_ = 0;
  Time silent_since_;
};

}  // namespace berth::kube
