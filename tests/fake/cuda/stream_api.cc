// Entry points for streams and events, except captures (capture_api.cc).
#include "fake/cuda/graph.h"
#include "fake/cuda/memory.h"
#include "fake/cuda/pool.h"
#include "fake/cuda/stream.h"
#include "fake/state/faults.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

namespace {

constexpr int kHighestPriority = -5;

CUresult create_stream(CUstream* stream, unsigned int flags, int priority) {
  static std::uint64_t ids = 1000;
  if (stream == nullptr || flags > 1) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  Stream* made = g_streams.make();
  if (made == nullptr) return kOutOfMemory;
  made->context = context;
  made->flags = flags;
  made->priority = priority > 0 ? 0 : priority < kHighestPriority ? kHighestPriority : priority;
  made->id = ++ids;
  *stream = made;
  return kSuccess;
}

CUresult record(Event& event, Stream& stream) {
  const Guard guard(driver().lock);
  event.recorded = true;
  event.capture = stream.capture;
  if (stream.capture != nullptr) {
    event.frontier = stream.frontier;
    return kSuccess;
  }
  const std::uint64_t idle = idle_at(stream);
  const std::uint64_t now = (event.flags & 2U) != 0 && idle == 0 ? 0 : berth::fake::now_ns();
  event.when = idle > now ? idle : turn_at(*stream.context, now);
  return kSuccess;
}

}  // namespace

BERTH_CUDA cuStreamCreate(CUstream* stream, unsigned int flags) {
  ENTER(cuStreamCreate, stream);
  return create_stream(stream, flags, 0);
}

BERTH_CUDA cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  ENTER(cuStreamCreateWithPriority, stream);
  return create_stream(stream, flags, priority);
}

BERTH_CUDA cuStreamDestroy_v2(CUstream handle) {
  ENTER(cuStreamDestroy_v2);
  BERTH_RESOLVE(handle, false, stream);
  if (stream->built_in) return kInvalidHandle;
  const Guard guard(driver().lock);
  leave_capture(*stream);
  // Work goes on after the handle is gone; the device's time line has it.
  wait_for(*stream->context->thread_stream, 0);
  g_streams.destroy(stream);
  return kSuccess;
}

BERTH_CUDA cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

static CUresult cuStreamSynchronize_body(const char* entry, bool per_thread, CUstream handle) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  if (stream->capture != nullptr) return invalidate_capture(*stream);
  sleep_until_idle(idle_at(*stream));
  return kSuccess;
}
BERTH_STREAM_CALL(cuStreamSynchronize, ptsz, (CUstream stream), (stream))

static CUresult cuStreamQuery_body(const char* entry, bool per_thread, CUstream handle) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  if (stream->capture != nullptr) return invalidate_capture(*stream);
  return is_past(idle_at(*stream)) ? kSuccess : kNotReady;
}
BERTH_STREAM_CALL(cuStreamQuery, ptsz, (CUstream stream), (stream))

static CUresult cuStreamGetPriority_body(const char* entry, bool per_thread, CUstream handle,
                                         int* priority) {
  return tell(entry, per_thread, handle, priority,
              [](const Stream& stream) { return stream.priority; });
}
BERTH_STREAM_CALL(cuStreamGetPriority, ptsz, (CUstream stream, int* priority), (stream, priority))

static CUresult cuStreamGetFlags_body(const char* entry, bool per_thread, CUstream handle,
                                      unsigned int* flags) {
  return tell(entry, per_thread, handle, flags, [](const Stream& stream) { return stream.flags; });
}
BERTH_STREAM_CALL(cuStreamGetFlags, ptsz, (CUstream stream, unsigned int* flags), (stream, flags))

static CUresult cuStreamGetId_body(const char* entry, bool per_thread, CUstream handle,
                                   unsigned long long* id) {
  return tell(entry, per_thread, handle, id, [](const Stream& stream) { return stream.id; });
}
BERTH_STREAM_CALL(cuStreamGetId, ptsz, (CUstream stream, unsigned long long* id), (stream, id))

static CUresult cuStreamGetCtx_body(const char* entry, bool per_thread, CUstream handle,
                                    CUcontext* context) {
  return tell(entry, per_thread, handle, context,
              [](const Stream& stream) { return stream.context; });
}
BERTH_STREAM_CALL(cuStreamGetCtx, ptsz, (CUstream stream, CUcontext* context), (stream, context))

static CUresult cuStreamGetDevice_body(const char* entry, bool per_thread, CUstream handle,
                                       CUdevice* device) {
  return tell(entry, per_thread, handle, device,
              [](const Stream& stream) { return stream.context->device; });
}
BERTH_STREAM_CALL(cuStreamGetDevice, ptsz, (CUstream stream, CUdevice* device), (stream, device))

static CUresult cuStreamWaitEvent_body(const char* entry, bool per_thread, CUstream handle,
                                       CUevent event, unsigned int flags) {
  ENTER_AS(entry);
  if (flags > 1) return kInvalidValue;
  BERTH_RESOLVE(handle, per_thread, stream);
  if (!g_events.is_live(event)) return kInvalidHandle;
  const Guard guard(driver().lock);
  if (event->capture != nullptr) return join_capture(*stream, *event);
  if (event->recorded) wait_for(*stream, event->when);
  return kSuccess;
}
BERTH_STREAM_CALL(cuStreamWaitEvent, ptsz, (CUstream stream, CUevent event, unsigned int flags),
                  (stream, event, flags))

static CUresult cuStreamAddCallback_body(const char* entry, bool per_thread, CUstream handle,
                                         void (*callback)(CUstream, CUresult, void*), void* data,
                                         unsigned int flags) {
  ENTER_AS(entry);
  if (callback == nullptr || flags != 0) return kInvalidValue;
  BERTH_RESOLVE(handle, per_thread, stream);
  if (stream->capture != nullptr) return invalidate_capture(*stream);
  sleep_until_idle(idle_at(*stream));
  callback(handle, kSuccess, data);
  return kSuccess;
}
BERTH_STREAM_CALL(cuStreamAddCallback, ptsz,
                  (CUstream stream, void (*callback)(CUstream, CUresult, void*), void* data,
                   unsigned int flags),
                  (stream, callback, data, flags))

// Host functions run at once, after the work before them: nothing runs in the background here.
static CUresult cuLaunchHostFunc_body(const char* entry, bool per_thread, CUstream handle,
                                      void (*function)(void*), void* data) {
  ENTER_AS(entry);
  if (function == nullptr) return kInvalidValue;
  BERTH_RESOLVE(handle, per_thread, stream);
  if (stream->capture != nullptr) return capture_plain(*stream, NodeType::host, 0);
  sleep_until_idle(idle_at(*stream));
  function(data);
  return kSuccess;
}
BERTH_STREAM_CALL(cuLaunchHostFunc, ptsz, (CUstream stream, void (*function)(void*), void* data),
                  (stream, function, data))

static CUresult cuStreamAttachMemAsync_body(const char* entry, bool per_thread, CUstream handle,
                                            CUdeviceptr pointer, std::size_t, unsigned int) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  const Guard guard(driver().lock);
  const Block* block = driver().find(pointer);
  return block != nullptr && block->kind == BlockKind::managed ? kSuccess : kInvalidValue;
}
BERTH_STREAM_CALL(cuStreamAttachMemAsync, ptsz,
                  (CUstream stream, CUdeviceptr pointer, std::size_t length, unsigned int flags),
                  (stream, pointer, length, flags))

BERTH_CUDA cuEventCreate(CUevent* event, unsigned int flags) {
  ENTER(cuEventCreate, event);
  constexpr unsigned int kKnown = 1 | 2 | 4;  // blocking sync, no timing, between processes
  if (event == nullptr || (flags & ~kKnown) != 0) return kInvalidValue;
  BERTH_CONTEXT(context);
  const Guard guard(driver().lock);
  Event* made = g_events.make();
  if (made == nullptr) return kOutOfMemory;
  made->context = context;
  made->flags = flags;
  *event = made;
  return kSuccess;
}

BERTH_CUDA cuEventDestroy_v2(CUevent event) {
  ENTER(cuEventDestroy_v2);
  const Guard guard(driver().lock);
  if (!g_events.is_live(event)) return kInvalidHandle;
  g_events.destroy(event);
  return kSuccess;
}

BERTH_CUDA cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }

static CUresult cuEventRecord_body(const char* entry, bool per_thread, CUevent event,
                                   CUstream handle) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  if (!g_events.is_live(event)) return kInvalidHandle;
  return record(*event, *stream);
}
BERTH_STREAM_CALL(cuEventRecord, ptsz, (CUevent event, CUstream stream), (event, stream))

static CUresult cuEventRecordWithFlags_body(const char* entry, bool per_thread, CUevent event,
                                            CUstream handle, unsigned int flags) {
  ENTER_AS(entry);
  if (flags > 1) return kInvalidValue;
  BERTH_RESOLVE(handle, per_thread, stream);
  if (!g_events.is_live(event)) return kInvalidHandle;
  return record(*event, *stream);
}
BERTH_STREAM_CALL(cuEventRecordWithFlags, ptsz,
                  (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))

BERTH_CUDA cuEventQuery(CUevent event) {
  ENTER(cuEventQuery);
  if (!g_events.is_live(event)) return kInvalidHandle;
  if (event->capture != nullptr) return kStreamCaptureUnsupported;
  return !event->recorded || is_past(event->when) ? kSuccess : kNotReady;
}

BERTH_CUDA cuEventSynchronize(CUevent event) {
  ENTER(cuEventSynchronize);
  if (!g_events.is_live(event)) return kInvalidHandle;
  if (event->capture != nullptr) return kStreamCaptureUnsupported;
  if (event->recorded) sleep_until_idle(event->when);
  return kSuccess;
}

static CUresult elapsed(float* milliseconds, CUevent start, CUevent end) {
  if (milliseconds == nullptr) return kInvalidValue;
  if (!g_events.is_live(start) || !g_events.is_live(end)) return kInvalidHandle;
  if (!start->recorded || !end->recorded || ((start->flags | end->flags) & 2U) != 0) {
    return kInvalidHandle;
  }
  if (!is_past(start->when) || !is_past(end->when)) return kNotReady;
  const double from = static_cast<double>(start->when);
  *milliseconds = static_cast<float>((static_cast<double>(end->when) - from) / 1e6);
  return kSuccess;
}

BERTH_CUDA cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  ENTER(cuEventElapsedTime, milliseconds);
  return elapsed(milliseconds, start, end);
}

BERTH_CUDA cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  ENTER(cuEventElapsedTime_v2, milliseconds);
  return elapsed(milliseconds, start, end);
}

BERTH_CUDA cuCtxSynchronize() {
  ENTER(cuCtxSynchronize);
  BERTH_CONTEXT(context);
  sleep_until_idle(context_idle_at(*context));
  return kSuccess;
}

BERTH_CUDA cuCtxSynchronize_v2(CUcontext context) {
  if (context == nullptr) return cuCtxSynchronize();
  ENTER(cuCtxSynchronize_v2);
  if (!g_contexts.is_live(context)) return kInvalidContext;
  sleep_until_idle(context_idle_at(*context));
  return kSuccess;
}

BERTH_CUDA cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  ENTER(cuCtxGetStreamPriorityRange, least, greatest);
  BERTH_CONTEXT(context);
  (void)context;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kHighestPriority;
  return kSuccess;
}
