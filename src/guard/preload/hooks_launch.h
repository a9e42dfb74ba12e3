// Launches under a compute limit, and graph launches, which also need memory.
//
// A launch goes by a pointer of its own, so that what an exported function does before it is one
// jump. The pointer leads first to the careful half of the hook, which sees what the grant says and
// then lets it lead to the driver, if launches are not limited, or to the usual half. All have the
// same signature, so what one does not decide goes on by a jump, too.
#pragma once

#include "guard/preload/call.h"
#include "guard/preload/graphs.h"
#include "guard/preload/launch.h"

namespace berth::guard::hooks {

template <Name kName>
using Function = typename Signature<kName>::Type;

// NOLINTBEGIN(bugprone-dynamic-static-initializers): constinit, so it may not
template <Name kName, Function<kName>* kCarefully>
[[gnu::visibility("hidden")]] constinit std::atomic<Function<kName>*> g_way{kCarefully};
// NOLINTEND(bugprone-dynamic-static-initializers)

// Nothing but code is behind the pointer, and every value that it ever had is a right one.
template <Name kName, Function<kName>* kCarefully>
[[gnu::always_inline]] inline Function<kName>* way() {
#if defined(__x86_64__)
  // A load that GCC does not take for a barrier: it would load and store the arguments that lie on
  // the stack around it.
  Function<kName>* way = nullptr;
  asm("movq %1, %0" : "=r"(way) : "m"(g_way<kName, kCarefully>));
  return way;
#else
  return g_way<kName, kCarefully>.load(std::memory_order_relaxed);
#endif
}

// The usual half: a launch that is paid for by what the thread has left.
template <Name kName, typename... Arguments>
[[gnu::always_inline]] inline int launch_usually(CuHandle function, int (*carefully)(Arguments...),
                                                 Arguments... arguments) {
  auto* real = known_driver<kName>();
  char here;  // NOLINT(cppcoreguidelines-init-variables): only where it lies counts
  const auto place = reinterpret_cast<std::uintptr_t>(&here);
  if (real == nullptr || !pay_at_once(function, place)) [[unlikely]] {
    int code = carefully(arguments...);
    // No jump but a call: for a jump GCC would keep the arguments on the stack in registers.
    asm("" : "+r"(code));
    return code;
  }
  // What Depth does, by one who knows that it is not nested.
  t_own.inside = place;
  const int code = real(arguments...);
  t_own.inside = 0;
  return code;
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

// Lets later launches take the shortest way that the grant allows. While another thread is still
// opening the grant nothing is settled.
template <Name kName, Function<kName>* kCarefully>
void settle_way(Function<kName>* usually) {
  auto* real = reinterpret_cast<Function<kName>*>(real_pointer(kName));
  const bool limited = is_compute_limited();
  if (real == nullptr || g_mode.load(std::memory_order_acquire) == Mode::unknown) return;
  Function<kName>* to = limited ? usually : real;
  std::atomic<Function<kName>*>& from = g_way<kName, kCarefully>;
  // Other threads read it at every launch; it is written once.
  if (from.load(std::memory_order_relaxed) != to) from.store(to, std::memory_order_release);
}

template <Name kName>
int launch_kernel_usually(CuHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, CuHandle stream, void** params,
                          void** extra);

template <Name kName>
int launch_kernel_carefully(CuHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CuHandle stream,
                            void** params, void** extra) {
  settle_way<kName, launch_kernel_carefully<kName>>(launch_kernel_usually<kName>);
  return launch_carefully<kName>(function, stream_meant<kName>(stream), [&] {
    return driver<kName>(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
  });
}

template <Name kName>
int launch_kernel_usually(CuHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, CuHandle stream, void** params,
                          void** extra) {
  return launch_usually<kName>(function, launch_kernel_carefully<kName>, function, gx, gy, gz, bx,
                               by, bz, shared, stream, params, extra);
}

template <Name kName>
[[gnu::always_inline]] inline int launch_kernel(CuHandle function, unsigned gx, unsigned gy,
                                                unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                                unsigned shared, CuHandle stream, void** params,
                                                void** extra) {
  return way<kName, launch_kernel_carefully<kName>>()(function, gx, gy, gz, bx, by, bz, shared,
                                                      stream, params, extra);
}

template <Name kName>
int launch_kernel_ex_usually(const LaunchConfig* config, CuHandle function, void** params,
                             void** extra);

template <Name kName>
int launch_kernel_ex_carefully(const LaunchConfig* config, CuHandle function, void** params,
                               void** extra) {
  settle_way<kName, launch_kernel_ex_carefully<kName>>(launch_kernel_ex_usually<kName>);
  return launch_carefully<kName>(function,
                                 stream_meant<kName>(config != nullptr ? config->stream : nullptr),
                                 [&] { return driver<kName>(config, function, params, extra); });
}

template <Name kName>
int launch_kernel_ex_usually(const LaunchConfig* config, CuHandle function, void** params,
                             void** extra) {
  return launch_usually<kName>(function, launch_kernel_ex_carefully<kName>, config, function,
                               params, extra);
}

template <Name kName>
[[gnu::always_inline]] inline int launch_kernel_ex(const LaunchConfig* config, CuHandle function,
                                                   void** params, void** extra) {
  return way<kName, launch_kernel_ex_carefully<kName>>()(config, function, params, extra);
}

template <Name kName>
int launch_cooperative_usually(CuHandle function, unsigned gx, unsigned gy, unsigned gz,
                               unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               CuHandle stream, void** params);

template <Name kName>
int launch_cooperative_carefully(CuHandle function, unsigned gx, unsigned gy, unsigned gz,
                                 unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                 CuHandle stream, void** params) {
  settle_way<kName, launch_cooperative_carefully<kName>>(launch_cooperative_usually<kName>);
  return launch_carefully<kName>(function, stream_meant<kName>(stream), [&] {
    return driver<kName>(function, gx, gy, gz, bx, by, bz, shared, stream, params);
  });
}

template <Name kName>
int launch_cooperative_usually(CuHandle function, unsigned gx, unsigned gy, unsigned gz,
                               unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               CuHandle stream, void** params) {
  return launch_usually<kName>(function, launch_cooperative_carefully<kName>, function, gx, gy, gz,
                               bx, by, bz, shared, stream, params);
}

template <Name kName>
[[gnu::always_inline]] inline int launch_cooperative(CuHandle function, unsigned gx, unsigned gy,
                                                     unsigned gz, unsigned bx, unsigned by,
                                                     unsigned bz, unsigned shared, CuHandle stream,
                                                     void** params) {
  return way<kName, launch_cooperative_carefully<kName>>()(function, gx, gy, gz, bx, by, bz, shared,
                                                           stream, params);
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
  auto* real = known_driver<kName>();
  if (real == nullptr || has_graphs()) return graph_launch_carefully<kName>(executable, stream);
  if (!may_be_compute_limited()) return real(executable, stream);
  return launch_usually<kName>(executable, graph_launch_carefully<kName>, executable, stream);
}

}  // namespace berth::guard::hooks
