// Everything the library exports besides dlsym and dlvsym, and its constructor.
#include "guard/preload/hooks_contexts.h"
#include "guard/preload/hooks_graphs.h"
#include "guard/preload/hooks_launch.h"
#include "guard/preload/hooks_memory.h"
#include "guard/preload/hooks_nvml.h"
#include "guard/preload/hooks_pools.h"
#include "guard/preload/hooks_resolver.h"
#include "guard/preload/hooks_view.h"
#include "guard/preload/hooks_vmm.h"
#include "guard/preload/local.h"
#include "guard/preload/resolver.h"

#define GUARD_EXPORT __attribute__((visibility("default")))

namespace berth::guard {

#include "guard/preload/guard_exports.inc"

namespace {

// One system call to see whether there is a grant, one page range of our own; everything else waits
// for the first call of the driver.
GUARD_AT_START __attribute__((constructor)) void start() {
  const ErrorKeeper keeper;
  make_local();
  look_for_grant();
}

}  // namespace

}  // namespace berth::guard
