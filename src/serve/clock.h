// Clock: the daemon's engine time, which goes on where the journal left it.
//
// Engine time is that of the machine's clock since boot, suspended time included: nobody's setting
// of the wall clock reaches it. A record of it lies in the journal; after a restart in the same
// boot the time that passed meanwhile counts, after a reboot it does not. A manual clock stands
// until it is told to go on. Thread-safety: none; the decision thread's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lease/service.h"

namespace berth::serve {

class Clock {
 public:
  explicit Clock(bool manual);

  // Goes on from a record of the journal; what is no record of a clock is ignored.
  void restore(std::string_view record);
  std::string record() const;

  lease::Now now() const;
  bool manual() const { return manual_; }
  // Manual clocks only.
  void set(Time time);

  // Of the machine, ms: what long polls and timeouts of sockets count in.
  static std::int64_t real_ms();

 private:
  std::int64_t since_boot() const;

  bool manual_;
  std::int64_t base_ = 0;  // engine time when the machine's clock was origin_
  std::int64_t origin_ = 0;
  std::int64_t wall_base_ = 0;  // manual: the wall time of engine time 0
  Time set_;
};

}  // namespace berth::serve
