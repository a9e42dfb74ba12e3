#include "kube/client/lane_line.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace berth::kube {

namespace {

// Of HTTP/1.1: as many as the watches of a scheduler, and enough for writes.
constexpr long kMostConnections = 32;

}  // namespace

LaneLine::LaneLine(Poller& poller, const Clock& clock)
    : poller_(poller), clock_(clock), channel_(make_channel()), silent_since_(clock.now()) {}

std::unique_ptr<Channel> LaneLine::make_channel() const {
  return std::make_unique<Channel>(poller_, clock_, kMostConnections);
}

void LaneLine::add(Exchange& exchange) {
  if (on_.empty()) silent_since_ = clock_.now();
  on_.push_back({.exchange = &exchange, .channel = channel_.get()});
  channel_->add(exchange);
}

Channel* LaneLine::forget(const Exchange& exchange) {
  const auto found = std::ranges::find(on_, &exchange, &On::exchange);
  ASSERT(found != on_.end());
  Channel* const channel = found->channel;
  *found = on_.back();
  on_.pop_back();
  return channel;
}

void LaneLine::remove(Exchange& exchange) { forget(exchange)->remove(exchange); }

std::optional<Channel::Ended> LaneLine::next_ended() {
  std::optional<Channel::Ended> ended = channel_->next_ended();
  for (std::size_t i = 0; i < retired_.size() && !ended.has_value(); ++i) {
    ended = retired_[i]->next_ended();
  }
  if (ended.has_value()) {
    forget(*ended->exchange);
  } else {
    std::erase_if(retired_, [](const auto& channel) { return channel->on_it() == 0; });
  }
  return ended;
}

void LaneLine::run_due() {
  channel_->run_due();
  for (const auto& channel : retired_)
    channel->run_due();
}

std::optional<Duration> LaneLine::until_due() const {
  std::optional<Duration> least = channel_->until_due();
  for (const auto& channel : retired_) {
    const std::optional<Duration> its = channel->until_due();
    if (its.has_value() && (!least.has_value() || *its < *least)) least = its;
  }
  return least;
}

void LaneLine::retire() {
  retired_.push_back(std::move(channel_));
  channel_ = make_channel();
}

std::vector<Exchange*> LaneLine::everything() const {
  std::vector<Exchange*> all;
  all.reserve(on_.size());
  for (const On& on : on_)
    all.push_back(on.exchange);
  return all;
}

void LaneLine::close_all() {
  ASSERT(on_.empty(), on_.size());
  retired_.clear();
  channel_->renew();
}

void LaneLine::listen() {
  if (heard_ != heard_before_ || on_.empty()) silent_since_ = clock_.now();
  heard_before_ = heard_;
}

}  // namespace berth::kube
