// Stream captures in flight. On a capturing stream an allocation becomes a node of a graph.
// Thread-safety: all functions.
#pragma once

#include "guard/preload/local.h"
#include "guard/preload/real.h"

namespace berth::guard {

// Asks the driver only while a capture that we saw begin is in flight.
inline bool is_capturing(CuHandle stream) {
  const Local* own = local();
  if (own == nullptr || own->captures.load(std::memory_order_acquire) == 0) return false;
  int status = 0;
  return driver<Name::cuStreamIsCapturing>(stream, &status) == kCudaSuccess && status != 0;
}

inline void capture_began() {
  if (Local* own = local()) own->captures.fetch_add(1, std::memory_order_acq_rel);
}

inline void capture_ended() {
  Local* own = local();
  if (own == nullptr) return;
  std::uint32_t now = own->captures.load(std::memory_order_acquire);
  while (now != 0 && !own->captures.compare_exchange_weak(now, now - 1)) {
  }
}

}  // namespace berth::guard
