// Executable graphs with memory nodes, graph memory, and captures.
#pragma once

#include "guard/preload/call.h"
#include "guard/preload/captures.h"
#include "guard/preload/graphs.h"

namespace berth::guard::hooks {

template <Name kName, typename... Rest>
int instantiate(CuHandle* out, CuHandle graph, Rest... rest) {
  const Call call;
  const int code = driver<kName>(out, graph, rest...);
  if (code == kCudaSuccess && out != nullptr && call.counts()) enter_graph(*out, graph);
  return code;
}

template <Name kName>
int graph_instantiate_v1(CuHandle* out, CuHandle graph, CuHandle* error_node, char* log,
                         Size log_bytes) {
  return instantiate<kName>(out, graph, error_node, log, log_bytes);
}

template <Name kName>
int graph_instantiate(CuHandle* out, CuHandle graph, Flags64 flags) {
  return instantiate<kName>(out, graph, flags);
}

template <Name kName>
int graph_instantiate_params(CuHandle* out, CuHandle graph, void* params) {
  return instantiate<kName>(out, graph, params);
}

template <Name kName>
int graph_upload(CuHandle executable, CuHandle stream) {
  const Call call;
  if (!has_graphs() || !call.counts()) return driver<kName>(executable, stream);
  return run_graph(executable, [&] { return driver<kName>(executable, stream); });
}

template <Name kName>
int graph_exec_destroy(CuHandle executable) {
  const Call call;
  const int code = driver<kName>(executable);
  if (code == kCudaSuccess && has_graphs() && call.counts()) graph_gone(executable);
  return code;
}

template <Name kName>
int graph_mem_trim(CuDevice device) {
  const Call call;
  const int code = driver<kName>(device);
  if (code == kCudaSuccess && call.counts()) graph_memory_trimmed(device);
  return code;
}

template <Name kName>
int begin_capture_v1(CuHandle stream) {
  const int code = driver<kName>(stream);
  if (code == kCudaSuccess) capture_began();
  return code;
}

template <Name kName>
int begin_capture(CuHandle stream, int mode) {
  const int code = driver<kName>(stream, mode);
  if (code == kCudaSuccess) capture_began();
  return code;
}

template <Name kName>
int begin_capture_to_graph(CuHandle stream, CuHandle graph, const CuHandle* dependencies,
                           const void* edges, Size count, int mode) {
  const int code = driver<kName>(stream, graph, dependencies, edges, count, mode);
  if (code == kCudaSuccess) capture_began();
  return code;
}

// A capture that failed is over too: the driver has left capture mode whatever it answers, except
// that the stream never captured.
template <Name kName>
int end_capture(CuHandle stream, CuHandle* graph) {
  const bool captured = is_capturing(stream_meant<kName>(stream));
  const int code = driver<kName>(stream, graph);
  if (captured) capture_ended();
  return code;
}

}  // namespace berth::guard::hooks
