// Boost.Beast's parser, handled with care.
//
// Beast 1.81 asserts that what follows "0\r\n" of an empty chunked body has at least two bytes,
// which is up to the other side. So a chunked body is given on only when as many bytes are there as
// its shortest end has, and an assertion of Boost that fails all the same becomes a parse error
// (boost_assert.cc): nothing that comes over the network may end the daemon.
#pragma once

#include <cstddef>
#include <string_view>

namespace berth::net {

// "0\r\n\r\n": fewer bytes are never the rest of a chunked body.
inline constexpr std::size_t kShortestChunkedEnd = 5;

// Thrown by failing assertions of Boost in this room.
struct BeastFault {};

// parser.put(bytes, error); a failed assertion is `error` = protocol error. The parser must not be
// used again after an error.
template <typename Parser, typename ErrorCode>
std::size_t beast_put(Parser& parser, std::string_view bytes, ErrorCode& error) {
  try {
    return parser.put({bytes.data(), bytes.size()}, error);
  } catch (const BeastFault&) {
    error.assign(71, error.category());  // EPROTO
    return 0;
  }
}

}  // namespace berth::net
