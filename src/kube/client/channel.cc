#include "kube/client/channel.h"

#include <algorithm>
#include <curl/curl.h>

#include "base/assert.h"

namespace berth::kube {

// What libcurl calls.
struct ChannelHooks {
  static int on_socket(CURL* /*easy*/, curl_socket_t fd, int what, void* self, void* /*socket*/) {
    auto* channel = static_cast<Channel*>(self);
    if (what == CURL_POLL_REMOVE) {
      channel->poller_.unwatch(fd);
      channel->watched_.erase(fd);
      return 0;
    }
    channel->watched_.insert(fd);
    channel->poller_.watch(
        fd, {.readable = (what & CURL_POLL_IN) != 0, .writable = (what & CURL_POLL_OUT) != 0},
        *channel);
    return 0;
  }

  static int on_timer(CURLM* /*multi*/, long timeout_ms, void* self) {
    auto* channel = static_cast<Channel*>(self);
    channel->due_.reset();
    if (timeout_ms >= 0) channel->due_ = channel->clock_.now() + Duration(timeout_ms);
    return 0;
  }
};

Channel::Channel(Poller& poller, const Clock& clock, long most_connections)
    : poller_(poller), clock_(clock), most_connections_(most_connections) {
  open();
}

Channel::~Channel() { close(); }

void Channel::open() {
  multi_ = curl_multi_init();
  ASSERT(multi_ != nullptr);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &ChannelHooks::on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &ChannelHooks::on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  curl_multi_setopt(multi_, CURLMOPT_MAX_HOST_CONNECTIONS, most_connections_);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, most_connections_);
  // A window of 64 writes and a probe fit; the server says how many it takes (100 by default).
  curl_multi_setopt(multi_, CURLMOPT_MAX_CONCURRENT_STREAMS, 100L);
}

void Channel::close() {
  ASSERT(exchanges_ == 0, exchanges_);
  curl_multi_cleanup(multi_);
  multi_ = nullptr;
  for (const int fd : watched_)
    poller_.unwatch(fd);
  watched_.clear();
  due_.reset();
}

void Channel::renew() {
  close();
  open();
}

void Channel::add(Exchange& exchange) {
  const CURLMcode code = curl_multi_add_handle(multi_, exchange.easy());
  ASSERT(code == CURLM_OK, static_cast<int>(code));
  ++exchanges_;
}

void Channel::remove(Exchange& exchange) {
  const CURLMcode code = curl_multi_remove_handle(multi_, exchange.easy());
  ASSERT(code == CURLM_OK, static_cast<int>(code));
  --exchanges_;
}

std::optional<Channel::Ended> Channel::next_ended() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode result = message->data.result;
    Exchange& exchange = Exchange::of(message->easy_handle);
    remove(exchange);
    return Ended{.exchange = &exchange, .curl_result = static_cast<int>(result)};
  }
  return std::nullopt;
}

void Channel::on_ready(int fd, bool readable, bool writable) {
  int running = 0;
  const int what = (readable ? CURL_CSELECT_IN : 0) | (writable ? CURL_CSELECT_OUT : 0);
  curl_multi_socket_action(multi_, fd, what, &running);
}

void Channel::run_due() {
  // Each run may ask for another one at once; a server that keeps us busy must not starve others.
  for (int round = 0; round < 8 && due_.has_value() && *due_ <= clock_.now(); ++round) {
    due_.reset();
    int running = 0;
    curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
  }
}

std::optional<Duration> Channel::until_due() const {
  if (!due_.has_value()) return std::nullopt;
  return std::max(*due_ - clock_.now(), Duration(0));
}

}  // namespace berth::kube
