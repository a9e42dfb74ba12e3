// cuGetProcAddress and the export tables.
#pragma once

#include "guard/preload/call.h"
#include "guard/preload/resolver.h"

namespace berth::guard::hooks {

template <Name kName>
int get_proc_address(const char* symbol, void** out, int version, Flags64 flags, int* status) {
  const Depth depth;
  const int code = driver<kName>(symbol, out, version, flags, status);
  if (code != kCudaSuccess || depth.nested() || symbol == nullptr || out == nullptr) return code;
  const auto ask = [&](int other, void** pointer) {
    int unused = 0;
    return driver<kName>(symbol, pointer, other, flags, &unused);
  };
  if (*out != nullptr) *out = hook_for(symbol, *out, version, flags, ask);
  return code;
}

template <Name kName>
int get_proc_address_v1(const char* symbol, void** out, int version, Flags64 flags) {
  const Depth depth;
  const int code = driver<kName>(symbol, out, version, flags);
  if (code != kCudaSuccess || depth.nested() || symbol == nullptr || out == nullptr) return code;
  const auto ask = [&](int other, void** pointer) {
    return driver<kName>(symbol, pointer, other, flags);
  };
  if (*out != nullptr) *out = hook_for(symbol, *out, version, flags, ask);
  return code;
}

// Private tables are the driver's own business.
template <Name kName>
int get_export_table(const void** table, const CuUuid* id) {
  return driver<kName>(table, id);
}

}  // namespace berth::guard::hooks
