// Entry points that turn what a stream is told into a graph.
#include <algorithm>

#include "fake/cuda/graph.h"

namespace berth::fake::cuda {

namespace {

Slab<Capture> g_captures;
std::uint64_t g_capture_ids = 0;

enum Status : int { kNone = 0, kActive = 1, kInvalidated = 2 };

CUresult begin(Stream& stream, Graph* graph, const CUgraphNode* dependencies, std::size_t count) {
  const Guard guard(driver().lock);
  if (stream.built_in && &stream == stream.context->legacy_stream) {
    return kStreamCaptureUnsupported;
  }
  if (stream.capture != nullptr) return kInvalidValue;
  const bool given = graph != nullptr;
  if (given && !g_graphs.is_live(graph)) return kInvalidValue;
  Capture* capture = g_captures.make();
  Graph* made = given ? graph : g_graphs.make();
  if (capture == nullptr || made == nullptr) return kOutOfMemory;
  *capture = {.graph = made, .origin = &stream, .id = ++g_capture_ids, .to_given_graph = given};
  stream.capture = capture;
  stream.frontier.clear();
  if (dependencies != nullptr) stream.frontier.assign(dependencies, dependencies + count);
  return kSuccess;
}

// Whether every node that another stream added is waited for by the origin: else work was left
// over.
bool is_joined(const Capture& capture) {
  bool joined = true;
  g_streams.each([&](const Stream* stream) {
    if (stream->capture != &capture || stream == capture.origin || stream->frontier.empty()) return;
    const std::vector<Node*>& at_origin = capture.origin->frontier;
    for (Node* node : stream->frontier) {
      const bool seen = std::any_of(
          capture.graph->nodes.begin(), capture.graph->nodes.end(), [&](const Node* later) {
            return std::find(later->dependencies.begin(), later->dependencies.end(), node) !=
                   later->dependencies.end();
          });
      joined = joined &&
               (seen || std::find(at_origin.begin(), at_origin.end(), node) != at_origin.end());
    }
  });
  return joined;
}

CUresult end(Stream& stream, Graph** graph) {
  const Guard guard(driver().lock);
  Capture* capture = stream.capture;
  if (capture == nullptr) return kInvalidValue;
  if (capture->origin != &stream) return kStreamCaptureUnmatched;
  constexpr CUresult kUnjoined = 904;
  CUresult code = capture->invalidated ? kStreamCaptureInvalidated : kSuccess;
  if (code == kSuccess && !is_joined(*capture)) code = kUnjoined;
  g_streams.each([&](Stream* other) {
    if (other->capture != capture) return;
    other->capture = nullptr;
    other->frontier.clear();
  });
  g_events.each([&](Event* event) {
    if (event->capture != capture) return;
    event->capture = nullptr;
    event->recorded = false;
    event->frontier.clear();
  });
  *graph = code == kSuccess ? capture->graph : nullptr;
  if (code != kSuccess && !capture->to_given_graph) destroy_graph(capture->graph);
  g_captures.destroy(capture);
  return code;
}

int status_of(const Stream& stream) {
  if (stream.capture == nullptr) return kNone;
  return stream.capture->invalidated ? kInvalidated : kActive;
}

CUresult info(Stream& stream, int* status, std::uint64_t* id, CUgraph* graph,
              const CUgraphNode** dependencies, std::size_t* count) {
  if (status == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  *status = status_of(stream);
  if (stream.capture == nullptr) return kSuccess;
  if (id != nullptr) *id = stream.capture->id;
  if (graph != nullptr) *graph = stream.capture->graph;
  if (dependencies != nullptr) *dependencies = stream.frontier.data();
  if (count != nullptr) *count = stream.frontier.size();
  return kSuccess;
}

CUresult update_dependencies(Stream& stream, const CUgraphNode* nodes, std::size_t count,
                             unsigned int flags) {
  constexpr unsigned int kReplace = 1;
  const Guard guard(driver().lock);
  if (stream.capture == nullptr) return 401;  // illegal state
  if (flags > kReplace || (count > 0 && nodes == nullptr)) return kInvalidValue;
  if (flags == kReplace) stream.frontier.clear();
  stream.frontier.insert(stream.frontier.end(), nodes, nodes + count);
  return kSuccess;
}

}  // namespace

}  // namespace berth::fake::cuda

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

static CUresult cuStreamBeginCapture_body(const char* entry, bool per_thread, CUstream handle) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  return begin(*stream, nullptr, nullptr, 0);
}
BERTH_STREAM_CALL(cuStreamBeginCapture, ptsz, (CUstream stream), (stream))

static CUresult cuStreamBeginCapture_v2_body(const char* entry, bool per_thread, CUstream handle,
                                             int mode) {
  ENTER_AS(entry);
  if (mode < 0 || mode > 2) return kInvalidValue;
  BERTH_RESOLVE(handle, per_thread, stream);
  return begin(*stream, nullptr, nullptr, 0);
}
BERTH_STREAM_CALL(cuStreamBeginCapture_v2, ptsz, (CUstream stream, int mode), (stream, mode))

static CUresult cuStreamBeginCaptureToGraph_body(const char* entry, bool per_thread,
                                                 CUstream handle, CUgraph graph,
                                                 const CUgraphNode* dependencies, std::size_t count,
                                                 int mode) {
  ENTER_AS(entry);
  if (mode < 0 || mode > 2 || graph == nullptr || (count > 0 && dependencies == nullptr)) {
    return kInvalidValue;
  }
  BERTH_RESOLVE(handle, per_thread, stream);
  return begin(*stream, graph, dependencies, count);
}
BERTH_STREAM_CALL(cuStreamBeginCaptureToGraph, ptsz,
                  (CUstream stream, CUgraph graph, const CUgraphNode* dependencies, const void*,
                   std::size_t count, int mode),
                  (stream, graph, dependencies, count, mode))

static CUresult cuStreamEndCapture_body(const char* entry, bool per_thread, CUstream handle,
                                        CUgraph* graph) {
  ENTER_AS(entry, graph);
  if (graph == nullptr) return kInvalidValue;
  BERTH_RESOLVE(handle, per_thread, stream);
  return end(*stream, graph);
}
BERTH_STREAM_CALL(cuStreamEndCapture, ptsz, (CUstream stream, CUgraph* graph), (stream, graph))

static CUresult cuStreamIsCapturing_body(const char* entry, bool per_thread, CUstream handle,
                                         int* status) {
  return tell(entry, per_thread, handle, status, status_of);
}
BERTH_STREAM_CALL(cuStreamIsCapturing, ptsz, (CUstream stream, int* status), (stream, status))

static CUresult cuStreamGetCaptureInfo_body(const char* entry, bool per_thread, CUstream handle,
                                            int* status, std::uint64_t* id) {
  ENTER_AS(entry, status);
  BERTH_RESOLVE(handle, per_thread, stream);
  return info(*stream, status, id, nullptr, nullptr, nullptr);
}
BERTH_STREAM_CALL(cuStreamGetCaptureInfo, ptsz, (CUstream stream, int* status, std::uint64_t* id),
                  (stream, status, id))

static CUresult cuStreamGetCaptureInfo_v2_body(const char* entry, bool per_thread, CUstream handle,
                                               int* status, std::uint64_t* id, CUgraph* graph,
                                               const CUgraphNode** dependencies,
                                               std::size_t* count) {
  ENTER_AS(entry, status);
  BERTH_RESOLVE(handle, per_thread, stream);
  return info(*stream, status, id, graph, dependencies, count);
}
BERTH_STREAM_CALL(cuStreamGetCaptureInfo_v2, ptsz,
                  (CUstream stream, int* status, std::uint64_t* id, CUgraph* graph,
                   const CUgraphNode** dependencies, std::size_t* count),
                  (stream, status, id, graph, dependencies, count))

static CUresult cuStreamGetCaptureInfo_v3_body(const char* entry, bool per_thread, CUstream handle,
                                               int* status, std::uint64_t* id, CUgraph* graph,
                                               const CUgraphNode** dependencies, const void** data,
                                               std::size_t* count) {
  ENTER_AS(entry, status);
  if (data != nullptr) *data = nullptr;
  BERTH_RESOLVE(handle, per_thread, stream);
  return info(*stream, status, id, graph, dependencies, count);
}
BERTH_STREAM_CALL(cuStreamGetCaptureInfo_v3, ptsz,
                  (CUstream stream, int* status, std::uint64_t* id, CUgraph* graph,
                   const CUgraphNode** dependencies, const void** data, std::size_t* count),
                  (stream, status, id, graph, dependencies, data, count))

static CUresult cuStreamUpdateCaptureDependencies_body(const char* entry, bool per_thread,
                                                       CUstream handle, const CUgraphNode* nodes,
                                                       std::size_t count, unsigned int flags) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  return update_dependencies(*stream, nodes, count, flags);
}
BERTH_STREAM_CALL(cuStreamUpdateCaptureDependencies, ptsz,
                  (CUstream stream, const CUgraphNode* nodes, std::size_t count,
                   unsigned int flags),
                  (stream, nodes, count, flags))

static CUresult cuStreamUpdateCaptureDependencies_v2_body(const char* entry, bool per_thread,
                                                          CUstream handle, const CUgraphNode* nodes,
                                                          std::size_t count, unsigned int flags) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  return update_dependencies(*stream, nodes, count, flags);
}
BERTH_STREAM_CALL(cuStreamUpdateCaptureDependencies_v2, ptsz,
                  (CUstream stream, const CUgraphNode* nodes, const void*, std::size_t count,
                   unsigned int flags),
                  (stream, nodes, count, flags))

BERTH_CUDA cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER(cuThreadExchangeStreamCaptureMode);
  static thread_local int own = 0;
  if (mode == nullptr || *mode < 0 || *mode > 2) return kInvalidValue;
  std::swap(own, *mode);
  return kSuccess;
}
