#include "fake/cuda/stream.h"

#include <algorithm>

#include "fake/cuda/graph.h"
#include "fake/cuda/pool.h"
#include "fake/state/faults.h"

namespace berth::fake::cuda {

Slab<Stream> g_streams;
Slab<Event> g_events;

CUresult resolve(CUstream handle, bool per_thread, Stream** stream) {
  Context* context = nullptr;
  if (const CUresult code = current_context(&context); code != kSuccess) return code;
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number == 0) {
    *stream = per_thread ? context->thread_stream : context->legacy_stream;
  } else if (number == kLegacyStream) {
    *stream = context->legacy_stream;
  } else if (number == kPerThreadStream) {
    *stream = context->thread_stream;
  } else if (g_streams.is_live(handle)) {
    *stream = handle;
  } else {
    return kInvalidHandle;
  }
  return kSuccess;
}

namespace {

// The utilisation that the management library shows: kernel time by slices of 50 ms.
void note_busy(DeviceEntry& device, std::uint64_t from, std::uint64_t until) {
  device.busy_total.fetch_add(until - from, std::memory_order_relaxed);
  std::uint64_t first = std::max(from, until > kBucketNs * (kUtilisationBuckets - 1)
                                           ? until - kBucketNs * (kUtilisationBuckets - 1)
                                           : 0);
  while (first < until) {
    const std::uint64_t epoch = first / kBucketNs;
    const std::uint64_t last = std::min(until, (epoch + 1) * kBucketNs);
    Bucket& bucket = device.buckets[epoch % kUtilisationBuckets];
    if (bucket.epoch.exchange(epoch) != epoch) bucket.busy_ns.store(0);
    bucket.busy_ns.fetch_add(last - first);
    first = last;
  }
}

}  // namespace

void add_work(Stream& stream, std::uint64_t duration_ns) {
  if (duration_ns == 0) return;
  Driver& the_driver = driver();
  Context& context = *stream.context;
  DeviceEntry& device = the_driver.entry(context.entry);
  std::uint64_t start = std::max(now_ns(), idle_at(stream));
  std::uint64_t busy = device.busy_until.load();
  std::uint64_t end = 0;
  do {
    start = std::max(start, busy);
    end = start + duration_ns;
  } while (!device.busy_until.compare_exchange_weak(busy, end));
  stream.ready_at = end;
  note_busy(device, start, end);
  Figures& own = the_driver.books().own_figures(context.entry);
  own.busy_ns.fetch_add(duration_ns, std::memory_order_relaxed);
  own.last_busy.store(end, std::memory_order_relaxed);
}

// The legacy stream and the blocking streams of a context wait for each other.
std::uint64_t idle_at(const Stream& stream) {
  const Context& context = *stream.context;
  if (&stream == context.legacy_stream) {
    std::uint64_t latest = stream.ready_at;
    g_streams.each([&](const Stream* other) {
      if (other->context == &context && (other->flags & 1U) == 0) {
        latest = std::max(latest, other->ready_at);
      }
    });
    return latest;
  }
  if ((stream.flags & 1U) != 0) return stream.ready_at;
  return std::max(stream.ready_at, context.legacy_stream->ready_at);
}

std::uint64_t context_idle_at(const Context& context) {
  std::uint64_t latest = 0;
  g_streams.each([&](const Stream* stream) {
    if (stream->context == &context) latest = std::max(latest, stream->ready_at);
  });
  return latest;
}

std::uint64_t turn_at(const Context& context, std::uint64_t now) {
  const std::uint64_t busy = driver().entry(context.entry).busy_until.load();
  const std::uint64_t own = driver().books().own_figures(context.entry).last_busy.load();
  return busy > own && busy > now ? busy : now;
}

bool is_past(std::uint64_t when) { return when == 0 || when <= now_ns(); }

void sleep_until_idle(std::uint64_t when) {
  if (!is_past(when)) sleep_until(when);
  if (!pools_are_clean()) {
    const Guard guard(driver().lock);
    settle_pools();
  }
}

bool make_streams(Context& context) {
  static std::uint64_t ids = 0;
  for (Stream** stream : {&context.legacy_stream, &context.thread_stream}) {
    *stream = g_streams.make();
    if (*stream == nullptr) return false;
    (*stream)->context = &context;
    (*stream)->built_in = true;
    (*stream)->id = ++ids;
  }
  return true;
}

void drop_streams(Context& context) {
  g_streams.each([&](Stream* stream) {
    if (stream->context != &context) return;
    leave_capture(*stream);
    g_streams.destroy(stream);
  });
  g_events.each([&](Event* event) {
    if (event->context == &context) g_events.destroy(event);
  });
}

}  // namespace berth::fake::cuda
