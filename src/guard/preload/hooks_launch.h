// Launches under a compute limit, and graph launches, which also need memory.
#pragma once

#include "guard/preload/call.h"
#include "guard/preload/graphs.h"
#include "guard/preload/launch.h"

namespace berth::guard::hooks {

template <typename Forward>
[[gnu::always_inline]] inline int launch(CuHandle function, CuHandle stream, Forward&& forward) {
  if (!is_compute_limited()) [[likely]] {
    return forward();
  }
  const Depth depth;
  if (depth.nested()) return forward();
  Launch paid(function, stream);
  const int code = forward();
  paid.ended(code);
  return code;
}

template <Name kName>
int launch_kernel(CuHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                  unsigned by, unsigned bz, unsigned shared, CuHandle stream, void** params,
                  void** extra) {
  return launch(function, stream_meant<kName>(stream), [&] {
    return driver<kName>(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
  });
}

template <Name kName>
int launch_kernel_ex(const LaunchConfig* config, CuHandle function, void** params, void** extra) {
  return launch(function, stream_meant<kName>(config != nullptr ? config->stream : nullptr),
                [&] { return driver<kName>(config, function, params, extra); });
}

template <Name kName>
int launch_cooperative(CuHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CuHandle stream, void** params) {
  return launch(function, stream_meant<kName>(stream), [&] {
    return driver<kName>(function, gx, gy, gz, bx, by, bz, shared, stream, params);
  });
}

// Paid as one launch of the first function; the others run at the same time on other devices.
template <Name kName>
int launch_cooperative_multi(LaunchParams* list, unsigned count, unsigned flags) {
  const bool any = list != nullptr && count != 0;
  return launch(any ? list[0].function : nullptr, any ? list[0].stream : nullptr,
                [&] { return driver<kName>(list, count, flags); });
}

template <Name kName>
int launch_simple(CuHandle function) {
  return launch(function, nullptr, [&] { return driver<kName>(function); });
}

template <Name kName>
int launch_grid(CuHandle function, int width, int height) {
  return launch(function, nullptr, [&] { return driver<kName>(function, width, height); });
}

template <Name kName>
int launch_grid_async(CuHandle function, int width, int height, CuHandle stream) {
  return launch(function, stream_meant<kName>(stream),
                [&] { return driver<kName>(function, width, height, stream); });
}

template <Name kName>
int graph_launch(CuHandle executable, CuHandle stream) {
  const auto run = [&]() -> int {
    if (!has_graphs() || !is_active()) return driver<kName>(executable, stream);
    return run_graph(executable, [&] { return driver<kName>(executable, stream); });
  };
  return launch(executable, stream_meant<kName>(stream), run);
}

}  // namespace berth::guard::hooks
