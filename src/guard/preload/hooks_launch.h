// Launches under a compute limit, and graph launches, which also need memory.
//
// Every launch has two halves: the usual case, in which the hook needs no stack of its own before
// it is decided, and `carefully`, of the same signature, to which everything else goes by a jump.
#pragma once

#include "guard/preload/call.h"
#include "guard/preload/graphs.h"
#include "guard/preload/launch.h"

namespace berth::guard::hooks {

// The usual case: no compute limit, or a launch that is paid for by what the thread has left.
template <Name kName, typename... Arguments>
[[gnu::always_inline]] inline int launch(CuHandle function, int (*carefully)(Arguments...),
                                         Arguments... arguments) {
  auto* real = known_driver<kName>();
  if (real == nullptr) [[unlikely]] {
    return carefully(arguments...);
  }
  if (!may_be_compute_limited()) return real(arguments...);
  if (!pay_at_once(function)) [[unlikely]] {
    return carefully(arguments...);
  }
  const Outermost scope;
  return real(arguments...);
}

// Every other case. The driver's function is found first: a search is no part of what the launch
// takes.
template <Name kName, typename Forward>
[[gnu::always_inline]] inline int launch_carefully(CuHandle function, CuHandle stream,
                                                   Forward&& forward) {
  if (real_pointer(kName) == nullptr || !is_compute_limited()) return forward();
  const Depth depth;
  if (depth.nested()) return forward();
  Launch paid(function, stream);
  const int code = forward();
  paid.ended(code);
  return code;
}

template <Name kName>
[[gnu::noinline]] int launch_kernel_carefully(CuHandle function, unsigned gx, unsigned gy,
                                              unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                              unsigned shared, CuHandle stream, void** params,
                                              void** extra) {
  return launch_carefully<kName>(function, stream_meant<kName>(stream), [&] {
    return driver<kName>(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
  });
}

template <Name kName>
[[gnu::always_inline]] inline int launch_kernel(CuHandle function, unsigned gx, unsigned gy,
                                                unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                                unsigned shared, CuHandle stream, void** params,
                                                void** extra) {
  return launch<kName>(function, launch_kernel_carefully<kName>, function, gx, gy, gz, bx, by, bz,
                       shared, stream, params, extra);
}

template <Name kName>
[[gnu::noinline]] int launch_kernel_ex_carefully(const LaunchConfig* config, CuHandle function,
                                                 void** params, void** extra) {
  return launch_carefully<kName>(function,
                                 stream_meant<kName>(config != nullptr ? config->stream : nullptr),
                                 [&] { return driver<kName>(config, function, params, extra); });
}

template <Name kName>
[[gnu::always_inline]] inline int launch_kernel_ex(const LaunchConfig* config, CuHandle function,
                                                   void** params, void** extra) {
  return launch<kName>(function, launch_kernel_ex_carefully<kName>, config, function, params,
                       extra);
}

template <Name kName>
[[gnu::noinline]] int launch_cooperative_carefully(CuHandle function, unsigned gx, unsigned gy,
                                                   unsigned gz, unsigned bx, unsigned by,
                                                   unsigned bz, unsigned shared, CuHandle stream,
                                                   void** params) {
  return launch_carefully<kName>(function, stream_meant<kName>(stream), [&] {
    return driver<kName>(function, gx, gy, gz, bx, by, bz, shared, stream, params);
  });
}

template <Name kName>
[[gnu::always_inline]] inline int launch_cooperative(CuHandle function, unsigned gx, unsigned gy,
                                                     unsigned gz, unsigned bx, unsigned by,
                                                     unsigned bz, unsigned shared, CuHandle stream,
                                                     void** params) {
  return launch<kName>(function, launch_cooperative_carefully<kName>, function, gx, gy, gz, bx, by,
                       bz, shared, stream, params);
}

// Paid as one launch of the first function; the others run at the same time on other devices.
template <Name kName>
int launch_cooperative_multi(LaunchParams* list, unsigned count, unsigned flags) {
  const bool any = list != nullptr && count != 0;
  return launch_carefully<kName>(any ? list[0].function : nullptr, any ? list[0].stream : nullptr,
                                 [&] { return driver<kName>(list, count, flags); });
}

template <Name kName>
int launch_simple(CuHandle function) {
  return launch_carefully<kName>(function, nullptr, [&] { return driver<kName>(function); });
}

template <Name kName>
int launch_grid(CuHandle function, int width, int height) {
  return launch_carefully<kName>(function, nullptr,
                                 [&] { return driver<kName>(function, width, height); });
}

template <Name kName>
int launch_grid_async(CuHandle function, int width, int height, CuHandle stream) {
  return launch_carefully<kName>(function, stream_meant<kName>(stream),
                                 [&] { return driver<kName>(function, width, height, stream); });
}

template <Name kName>
[[gnu::noinline]] int graph_launch_carefully(CuHandle executable, CuHandle stream) {
  const auto run = [&]() -> int {
    if (!has_graphs() || !is_active()) return driver<kName>(executable, stream);
    return run_graph(executable, [&] { return driver<kName>(executable, stream); });
  };
  return launch_carefully<kName>(executable, stream_meant<kName>(stream), run);
}

template <Name kName>
[[gnu::always_inline]] inline int graph_launch(CuHandle executable, CuHandle stream) {
  if (has_graphs()) return graph_launch_carefully<kName>(executable, stream);
  return launch<kName>(executable, graph_launch_carefully<kName>, executable, stream);
}

}  // namespace berth::guard::hooks
