// Streams, events and the device's time line.
//
// Work has a duration that a kernel declares (module.h) and is 0 otherwise. A device does one
// kernel at a time: its time line lies in the state file, so that kernels of several processes
// queue up behind each other as they do on a card that is shared in time slices. Nothing runs in
// the background: what ends when is computed at launch, and waiting is sleeping until then.
#pragma once

#include <vector>

#include "fake/cuda/context.h"

namespace berth::fake::cuda {

struct Capture;

struct Stream {
  Context* context = nullptr;
  unsigned int flags = 0;  // 1 = does not wait for the legacy stream
  int priority = 0;
  std::uint64_t id = 0;
  std::uint64_t ready_at = 0;  // CLOCK_MONOTONIC ns: end of its work so far
  bool built_in = false;       // legacy or per-thread: not destroyed by programs
  Capture* capture = nullptr;
  std::vector<Node*> frontier = {};  // of a capture: what the next node depends on
};

struct Event {
  Context* context = nullptr;
  unsigned int flags = 0;  // 2 = takes no time
  bool recorded = false;
  std::uint64_t when = 0;
  Capture* capture = nullptr;  // recorded while capturing
  std::vector<Node*> frontier = {};
};

extern Slab<Stream> g_streams;
extern Slab<Event> g_events;

inline constexpr std::uintptr_t kLegacyStream = 1;
inline constexpr std::uintptr_t kPerThreadStream = 2;

// What a program's handle means in the current context: 0 is the legacy stream, or the thread's own
// for the per-thread forms.
CUresult resolve(CUstream handle, bool per_thread, Stream** stream);

// Puts `duration_ns` of work on the stream: starts when stream, legacy order and device allow.
void add_work(Stream& stream, std::uint64_t duration_ns);
// Makes the stream wait until `when`.
inline void wait_for(Stream& stream, std::uint64_t when) {
  if (when > stream.ready_at) stream.ready_at = when;
}
// When everything that must be done before the stream counts as idle is done.
std::uint64_t idle_at(const Stream& stream);
std::uint64_t context_idle_at(const Context& context);
// When the device comes to what an idle stream is told now: processes take turns on it, so what
// others have queued is done first.
std::uint64_t turn_at(const Context& context, std::uint64_t now);
// Sleeps without the driver's lock, then lets pools settle.
void sleep_until_idle(std::uint64_t when);
bool is_past(std::uint64_t when);

// With the lock held: the built-in streams of a new context, and all streams and events of a dying
// one.
bool make_streams(Context& context);
void drop_streams(Context& context);

}  // namespace berth::fake::cuda

// Defines NAME and its per-thread form NAME_SUFFIX by a function NAME_body(entry, per_thread, ...).
#define BERTH_UNWRAP(...) __VA_ARGS__
#define BERTH_STREAM_CALL(name, suffix, params, arguments)                             \
  BERTH_CUDA name params { return name##_body(#name, false, BERTH_UNWRAP arguments); } \
  BERTH_CUDA name##_##suffix params {                                                  \
    return name##_body(#name "_" #suffix, true, BERTH_UNWRAP arguments);               \
  }
#define ENTER_AS(entry, ...)                                                              \
  if (const CUresult stop = ::berth::fake::cuda::enter(entry __VA_OPT__(, ) __VA_ARGS__); \
      stop != ::berth::fake::cuda::kSuccess)                                              \
  return stop
// A stream of the current context, or the error that says why not.
#define BERTH_RESOLVE(handle, per_thread, name)                                     \
  ::berth::fake::cuda::Stream* name = nullptr;                                      \
  if (const CUresult bad = ::berth::fake::cuda::resolve(handle, per_thread, &name); \
      bad != ::berth::fake::cuda::kSuccess)                                         \
  return bad
// The current context, or the error that says why there is none.
#define BERTH_CONTEXT(name)                                             \
  ::berth::fake::cuda::Context* name = nullptr;                         \
  if (const CUresult bad = ::berth::fake::cuda::current_context(&name); \
      bad != ::berth::fake::cuda::kSuccess)                             \
  return bad

namespace berth::fake::cuda {

// A call that tells one thing about a stream: what `read(stream)` answers.
template <class Value, class Read>
CUresult tell(const char* entry, bool per_thread, CUstream handle, Value* out, Read&& read) {
  ENTER_AS(entry, out);
  if (out == nullptr) return kInvalidValue;
  BERTH_RESOLVE(handle, per_thread, stream);
  *out = read(*stream);
  return kSuccess;
}

}  // namespace berth::fake::cuda
