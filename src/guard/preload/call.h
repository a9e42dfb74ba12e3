// The scope of one hook, and where a call is counted. Thread-safety: per thread.
#pragma once

#include "guard/preload/books.h"
#include "guard/preload/contexts.h"
#include "guard/preload/depth.h"
#include "guard/preload/grant.h"
#include "guard/preload/real.h"

namespace berth::guard {

class Call {
 public:
  // False: the call goes straight to the driver.
  bool counts() const { return !depth_.nested() && is_active(); }

 private:
  Depth depth_;
};

}  // namespace berth::guard
