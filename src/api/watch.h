// A client that waits for news of one lease. Private to Api.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/api.h"

namespace berth::api {

// A long poll (reply) or a stream.
struct Api::Watch {
  std::string lease;
  std::optional<net::Reply> reply;
  std::shared_ptr<net::Stream> stream;
  std::uint64_t version = 0;  // the client has seen it
  std::int64_t due = 0;       // real ms; long polls
  bool keeps = false;         // it is the owner: the lease stays in the queue meanwhile
};

}  // namespace berth::api
