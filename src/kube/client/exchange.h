// Exchange: one try of a call on a connection: a libcurl easy handle that is used again and again.
//
// Outfit holds what all exchanges under the same credentials share. Thread-safety: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/quantity.h"
#include "kube/client/access.h"
#include "kube/client/call.h"
#include "kube/client/credentials.h"

namespace berth::kube {

// Where requests go, the same for all credentials.
struct Target {
  std::string url = {};          // of the server, as libcurl needs it
  std::string shown = {};        // as people wrote it
  std::string host_header = {};  // when the URL's host is another; else empty
  std::string connect_to = {};   // likewise
  std::string proxy_url = {};
  std::string origin = {};  // of the access, for messages
  std::string user_agent = {};
  bool insecure = false;
  Duration connect_timeout{10'000};
};

Target make_target(const Access& access, std::string user_agent, Duration connect_timeout);

class Outfit {
 public:
  Outfit(const Target& target, std::shared_ptr<const CredentialSet> credentials);
  ~Outfit();
  Outfit(const Outfit&) = delete;
  Outfit& operator=(const Outfit&) = delete;

  const Target& target() const { return target_; }
  const std::shared_ptr<const CredentialSet>& credentials() const { return credentials_; }
  // A curl_slist for CONNECT_TO; null: none.
  void* connect_to() const { return connect_to_; }
  // A curl_slist with the headers of such a request.
  void* headers(const Content* content, const std::string& accept) const;

 private:
  void* make_list(const Content* content, std::string_view accept) const;

  const Target& target_;
  std::shared_ptr<const CredentialSet> credentials_;
  void* connect_to_ = nullptr;
  mutable std::array<void*, 5> usual_{};
  mutable std::unordered_map<std::string, void*> unusual_;
};

class Exchange {
 public:
  Exchange();
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Makes it ready. `body` and the path must stay until the end; `sink`: null, or who gets the
  // bytes of a 2xx answer.
  struct Order {
    Method method = Method::get;
    std::string_view path = {};
    std::string_view body = {};
    Content content = Content::json;
    const std::string* accept = nullptr;
    Duration timeout{};
    StreamSink* sink = nullptr;
    const std::function<bool()>* may_start = nullptr;
  };
  // `heard` counts the bytes that come.
  void prepare(const Order& order, std::shared_ptr<const Outfit> outfit, std::uint64_t owner,
               std::uint64_t& heard);
  // The sink hears no more.
  void mute() {
    order_.sink = nullptr;
    muted_ = true;
  }

  // What became of it. Views are valid until the next prepare(). Requires: ended, off the channel.
  Answer answer(int curl_result);
  // The same for one that is about to be taken off before its end: not_sent or unknown.
  Answer broken_off(std::string_view why);
  bool timed_out(int curl_result) const;

  // Connections that were opened for it.
  std::uint64_t connections() const;

  void* easy() const { return easy_; }
  std::uint64_t owner() const { return owner_; }
  const std::shared_ptr<const Outfit>& outfit() const { return outfit_; }
  static Exchange& of(void* easy);
  // Lets go of a body that was large.
  void rest();

 private:
  friend struct ExchangeHooks;
  void dress();
  bool left_us() const;
  std::string sentence(int curl_result) const;

  void* easy_;
  std::shared_ptr<const Outfit> outfit_;
  Order order_;
  std::uint64_t owner_ = 0;
  std::string url_;
  std::string body_;
  std::string problem_;
  std::size_t read_ = 0;  // of the request's body
  bool started_ = false;  // a piece of the answer's body came
  bool good_ = false;     // its status is 2xx
  bool muted_ = false;
  bool too_big_ = false;
  bool held_back_ = false;  // by may_start
  std::uint64_t* heard_ = nullptr;
  std::array<char, 256> error_{};
};

}  // namespace berth::kube
