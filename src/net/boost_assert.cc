// What a failed assertion inside Boost does in this room, which is compiled with
// BOOST_ENABLE_ASSERT_HANDLER: see net/beast.h.
#include <boost/assert.hpp>

#include "net/beast.h"

namespace boost {

void assertion_failed(char const* /*condition*/, char const* /*function*/, char const* /*file*/,
                      long /*line*/) {
  throw berth::net::BeastFault{};
}

void assertion_failed_msg(char const* /*condition*/, char const* /*message*/,
                          char const* /*function*/, char const* /*file*/, long /*line*/) {
  throw berth::net::BeastFault{};
}

}  // namespace boost
