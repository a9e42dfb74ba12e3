// Entry points for graphs and their nodes.
#include <algorithm>
#include <cstring>

#include "fake/cuda/graph.h"
#include "fake/cuda/module.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

namespace {

constexpr std::size_t kNodeUnion = 16;  // where the parameters of the node's own type begin

bool may_depend(const Graph* graph, const CUgraphNode* dependencies, std::size_t count) {
  return g_graphs.is_live(graph) && (count == 0 || dependencies != nullptr);
}

CUresult add(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
             NodeType type) {
  if (node == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!may_depend(graph, dependencies, count)) return kInvalidValue;
  Node* made = add_node(*graph, type, dependencies, count);
  if (made == nullptr) return kInvalidValue;
  *node = made;
  return kSuccess;
}

// A kernel node's first word is its function; a duration that it declares becomes the node's.
CUresult add_kernel(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                    std::size_t count, const void* parameters) {
  if (parameters == nullptr) return kInvalidValue;
  CUfunction function = nullptr;
  std::memcpy(&function, parameters, sizeof(CUfunction));
  const CUresult code = add(node, graph, dependencies, count, NodeType::kernel);
  if (code != kSuccess) return code;
  const Guard guard(driver().lock);
  if (g_functions.is_live(function)) (*node)->duration_ns = duration_of(*function);
  return kSuccess;
}

CUresult add_child(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                   std::size_t count, CUgraph child) {
  if (node == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!may_depend(graph, dependencies, count) || !g_graphs.is_live(child) || child == graph) {
    return kInvalidValue;
  }
  Node* made = add_node(*graph, NodeType::graph, dependencies, count);
  if (made == nullptr) return kInvalidValue;
  made->child = clone(*child);
  if (made->child == nullptr) return kOutOfMemory;
  made->child->owned = true;
  *node = made;
  return kSuccess;
}

CUresult add_free(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                  std::size_t count, CUdeviceptr pointer) {
  const CUresult code = add(node, graph, dependencies, count, NodeType::free);
  if (code == kSuccess) (*node)->pointer = pointer;
  return code;
}

CUresult add_any(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                 std::size_t count, unsigned char* parameters) {
  if (node == nullptr || parameters == nullptr) return kInvalidValue;
  int type = 0;
  std::memcpy(&type, parameters, sizeof type);
  unsigned char* own = parameters + kNodeUnion;
  if (type < 0 || type > static_cast<int>(NodeType::batch)) return kNotSupported;
  switch (static_cast<NodeType>(type)) {
    case NodeType::kernel: return add_kernel(node, graph, dependencies, count, own);
    case NodeType::graph: {
      CUgraph child = nullptr;
      std::memcpy(&child, own, sizeof(CUgraph));
      return add_child(node, graph, dependencies, count, child);
    }
    case NodeType::allocate: {
      AllocNodeParams allocation;
      std::memcpy(&allocation, own, sizeof allocation);
      const Guard guard(driver().lock);
      if (!may_depend(graph, dependencies, count)) return kInvalidValue;
      const CUresult code = add_allocation(*graph, dependencies, count, allocation, node);
      if (code == kSuccess) std::memcpy(own, &allocation, sizeof allocation);
      return code;
    }
    case NodeType::free: {
      CUdeviceptr pointer = 0;
      std::memcpy(&pointer, own, sizeof pointer);
      return add_free(node, graph, dependencies, count, pointer);
    }
    default: return add(node, graph, dependencies, count, static_cast<NodeType>(type));
  }
}

CUresult instantiate_for(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  if (exec == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_graphs.is_live(graph)) return kInvalidValue;
  return instantiate(*graph, flags, exec);
}

// The contract of the lists: without room, how many there are; with it, as many as fit, rest null.
CUresult give_nodes(const std::vector<Node*>& nodes, CUgraphNode* out, std::size_t* count) {
  if (count == nullptr) return kInvalidValue;
  if (out == nullptr) {
    *count = nodes.size();
    return kSuccess;
  }
  for (std::size_t place = 0; place < *count; ++place) {
    out[place] = place < nodes.size() ? nodes[place] : nullptr;
  }
  *count = std::min(*count, nodes.size());
  return kSuccess;
}

}  // namespace

BERTH_CUDA cuGraphCreate(CUgraph* graph, unsigned int flags) {
  ENTER(cuGraphCreate, graph);
  if (graph == nullptr || flags != 0) return kInvalidValue;
  const Guard guard(driver().lock);
  *graph = g_graphs.make();
  return *graph == nullptr ? kOutOfMemory : kSuccess;
}

BERTH_CUDA cuGraphDestroy(CUgraph graph) {
  ENTER(cuGraphDestroy);
  const Guard guard(driver().lock);
  if (!g_graphs.is_live(graph)) return kInvalidValue;
  destroy_graph(graph);
  return kSuccess;
}

BERTH_CUDA cuGraphClone(CUgraph* copy, CUgraph graph) {
  ENTER(cuGraphClone, copy);
  if (copy == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_graphs.is_live(graph)) return kInvalidValue;
  *copy = clone(*graph);
  return *copy == nullptr ? kOutOfMemory : kSuccess;
}

#define BERTH_NODE_PARAMS \
  CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, std::size_t count

BERTH_CUDA cuGraphAddEmptyNode(BERTH_NODE_PARAMS) {
  ENTER(cuGraphAddEmptyNode, node);
  return add(node, graph, dependencies, count, NodeType::empty);
}
BERTH_CUDA cuGraphAddKernelNode(BERTH_NODE_PARAMS, const void* parameters) {
  ENTER(cuGraphAddKernelNode, node);
  return add_kernel(node, graph, dependencies, count, parameters);
}
BERTH_CUDA cuGraphAddKernelNode_v2(BERTH_NODE_PARAMS, const void* parameters) {
  ENTER(cuGraphAddKernelNode_v2, node);
  return add_kernel(node, graph, dependencies, count, parameters);
}
BERTH_CUDA cuGraphAddMemcpyNode(BERTH_NODE_PARAMS, const void* parameters, CUcontext) {
  ENTER(cuGraphAddMemcpyNode, node);
  if (parameters == nullptr) return kInvalidValue;
  return add(node, graph, dependencies, count, NodeType::memcpy);
}
BERTH_CUDA cuGraphAddMemsetNode(BERTH_NODE_PARAMS, const void* parameters, CUcontext) {
  ENTER(cuGraphAddMemsetNode, node);
  if (parameters == nullptr) return kInvalidValue;
  return add(node, graph, dependencies, count, NodeType::memset);
}
BERTH_CUDA cuGraphAddHostNode(BERTH_NODE_PARAMS, const void* parameters) {
  ENTER(cuGraphAddHostNode, node);
  if (parameters == nullptr) return kInvalidValue;
  return add(node, graph, dependencies, count, NodeType::host);
}
BERTH_CUDA cuGraphAddChildGraphNode(BERTH_NODE_PARAMS, CUgraph child) {
  ENTER(cuGraphAddChildGraphNode, node);
  return add_child(node, graph, dependencies, count, child);
}
BERTH_CUDA cuGraphAddEventRecordNode(BERTH_NODE_PARAMS, CUevent) {
  ENTER(cuGraphAddEventRecordNode, node);
  return add(node, graph, dependencies, count, NodeType::record_event);
}
BERTH_CUDA cuGraphAddEventWaitNode(BERTH_NODE_PARAMS, CUevent) {
  ENTER(cuGraphAddEventWaitNode, node);
  return add(node, graph, dependencies, count, NodeType::wait_event);
}
BERTH_CUDA cuGraphAddMemAllocNode(BERTH_NODE_PARAMS, AllocNodeParams* parameters) {
  ENTER(cuGraphAddMemAllocNode, node);
  if (node == nullptr || parameters == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!may_depend(graph, dependencies, count)) return kInvalidValue;
  return add_allocation(*graph, dependencies, count, *parameters, node);
}
BERTH_CUDA cuGraphAddMemFreeNode(BERTH_NODE_PARAMS, CUdeviceptr pointer) {
  ENTER(cuGraphAddMemFreeNode, node);
  return add_free(node, graph, dependencies, count, pointer);
}
BERTH_CUDA cuGraphAddNode(BERTH_NODE_PARAMS, unsigned char* parameters) {
  ENTER(cuGraphAddNode, node);
  return add_any(node, graph, dependencies, count, parameters);
}
BERTH_CUDA cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                             const void*, std::size_t count, unsigned char* parameters) {
  ENTER(cuGraphAddNode_v2, node);
  return add_any(node, graph, dependencies, count, parameters);
}

BERTH_CUDA cuGraphDestroyNode(CUgraphNode node) {
  ENTER(cuGraphDestroyNode);
  const Guard guard(driver().lock);
  if (!g_nodes.is_live(node)) return kInvalidValue;
  destroy_node(node);
  return kSuccess;
}

BERTH_CUDA cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  ENTER(cuGraphGetNodes);
  const Guard guard(driver().lock);
  if (!g_graphs.is_live(graph)) return kInvalidValue;
  return give_nodes(graph->nodes, nodes, count);
}

BERTH_CUDA cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  ENTER(cuGraphGetRootNodes);
  const Guard guard(driver().lock);
  if (!g_graphs.is_live(graph)) return kInvalidValue;
  std::vector<Node*> roots;
  std::copy_if(graph->nodes.begin(), graph->nodes.end(), std::back_inserter(roots),
               [](const Node* node) { return node->dependencies.empty(); });
  return give_nodes(roots, nodes, count);
}

BERTH_CUDA cuGraphNodeGetType(CUgraphNode node, int* type) {
  ENTER(cuGraphNodeGetType, type);
  const Guard guard(driver().lock);
  if (type == nullptr || !g_nodes.is_live(node)) return kInvalidValue;
  *type = static_cast<int>(node->type);
  return kSuccess;
}

BERTH_CUDA cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, std::size_t* count) {
  ENTER(cuGraphNodeGetDependencies);
  const Guard guard(driver().lock);
  if (!g_nodes.is_live(node)) return kInvalidValue;
  return give_nodes(node->dependencies, out, count);
}

static CUresult edges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  if (count == nullptr) return kInvalidValue;
  const Guard guard(driver().lock);
  if (!g_graphs.is_live(graph)) return kInvalidValue;
  std::size_t found = 0;
  for (Node* node : graph->nodes) {
    for (Node* dependency : node->dependencies) {
      if (from != nullptr && to != nullptr && found < *count) {
        from[found] = dependency;
        to[found] = node;
      }
      ++found;
    }
  }
  *count = from == nullptr ? found : std::min(found, *count);
  return kSuccess;
}

BERTH_CUDA cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  ENTER(cuGraphGetEdges);
  return edges(graph, from, to, count);
}

BERTH_CUDA cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, void*,
                              std::size_t* count) {
  ENTER(cuGraphGetEdges_v2);
  return edges(graph, from, to, count);
}

BERTH_CUDA cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                  std::size_t count) {
  ENTER(cuGraphAddDependencies);
  const Guard guard(driver().lock);
  if (!may_depend(graph, from, count) || (count > 0 && to == nullptr)) return kInvalidValue;
  for (std::size_t place = 0; place < count; ++place) {
    if (!g_nodes.is_live(from[place]) || !g_nodes.is_live(to[place])) return kInvalidValue;
    to[place]->dependencies.push_back(from[place]);
  }
  return kSuccess;
}

BERTH_CUDA cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  ENTER(cuGraphChildGraphNodeGetGraph, graph);
  const Guard guard(driver().lock);
  if (graph == nullptr || !g_nodes.is_live(node) || node->child == nullptr) return kInvalidValue;
  *graph = node->child;
  return kSuccess;
}

BERTH_CUDA cuGraphMemAllocNodeGetParams(CUgraphNode node, AllocNodeParams* parameters) {
  ENTER(cuGraphMemAllocNodeGetParams, parameters);
  const Guard guard(driver().lock);
  if (parameters == nullptr || !g_nodes.is_live(node) || node->type != NodeType::allocate) {
    return kInvalidValue;
  }
  *parameters = node->parameters;
  return kSuccess;
}

BERTH_CUDA cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* pointer) {
  ENTER(cuGraphMemFreeNodeGetParams, pointer);
  const Guard guard(driver().lock);
  if (pointer == nullptr || !g_nodes.is_live(node) || node->type != NodeType::free) {
    return kInvalidValue;
  }
  *pointer = node->pointer;
  return kSuccess;
}

BERTH_CUDA cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  ENTER(cuGraphInstantiate, exec);
  return instantiate_for(exec, graph, 0);
}
BERTH_CUDA cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*,
                                 std::size_t) {
  ENTER(cuGraphInstantiate_v2, exec);
  return instantiate_for(exec, graph, 0);
}
BERTH_CUDA cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  ENTER(cuGraphInstantiateWithFlags, exec);
  return instantiate_for(exec, graph, flags);
}

namespace {

struct InstantiateParams {
  std::uint64_t flags;
  CUstream upload_stream;
  CUgraphNode error_node;
  int result;
};

}  // namespace

static CUresult cuGraphInstantiateWithParams_body(const char* entry, bool per_thread,
                                                  CUgraphExec* exec, CUgraph graph,
                                                  InstantiateParams* parameters) {
  ENTER_AS(entry, exec);
  constexpr std::uint64_t kUpload = 2;
  if (parameters == nullptr) return kInvalidValue;
  parameters->result = 0;
  parameters->error_node = nullptr;
  CUresult code = instantiate_for(exec, graph, parameters->flags);
  if (code != kSuccess || (parameters->flags & kUpload) == 0) return code;
  BERTH_RESOLVE(parameters->upload_stream, per_thread, stream);
  const Guard guard(driver().lock);
  code = upload(**exec, *stream);
  if (code != kSuccess) destroy_exec(*exec);
  return code;
}
BERTH_STREAM_CALL(cuGraphInstantiateWithParams, ptsz,
                  (CUgraphExec * exec, CUgraph graph, InstantiateParams* parameters),
                  (exec, graph, parameters))

static CUresult cuGraphUpload_body(const char* entry, bool per_thread, CUgraphExec exec,
                                   CUstream handle) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  const Guard guard(driver().lock);
  if (!g_graph_execs.is_live(exec)) return kInvalidValue;
  return upload(*exec, *stream);
}
BERTH_STREAM_CALL(cuGraphUpload, ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))

static CUresult cuGraphLaunch_body(const char* entry, bool per_thread, CUgraphExec exec,
                                   CUstream handle) {
  ENTER_AS(entry);
  BERTH_RESOLVE(handle, per_thread, stream);
  const Guard guard(driver().lock);
  if (!g_graph_execs.is_live(exec)) return kInvalidValue;
  if (stream->capture != nullptr) return kStreamCaptureUnsupported;
  return launch(*exec, *stream);
}
BERTH_STREAM_CALL(cuGraphLaunch, ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))

BERTH_CUDA cuGraphExecDestroy(CUgraphExec exec) {
  ENTER(cuGraphExecDestroy);
  const Guard guard(driver().lock);
  if (!g_graph_execs.is_live(exec)) return kInvalidValue;
  destroy_exec(exec);
  return kSuccess;
}

BERTH_CUDA cuGraphExecGetFlags(CUgraphExec exec, std::uint64_t* flags) {
  ENTER(cuGraphExecGetFlags, flags);
  const Guard guard(driver().lock);
  if (flags == nullptr || !g_graph_execs.is_live(exec)) return kInvalidValue;
  *flags = exec->flags;
  return kSuccess;
}

// An update that changes nothing of the graph's shape succeeds; memory nodes cannot be updated.
static CUresult update(CUgraphExec exec, CUgraph graph, int* result) {
  const Guard guard(driver().lock);
  if (!g_graph_execs.is_live(exec) || !g_graphs.is_live(graph)) return kInvalidValue;
  const bool memory = !exec->steps.empty();
  *result = memory ? 7 : 0;
  return memory ? 910 : kSuccess;
}

BERTH_CUDA cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* node, int* result) {
  ENTER(cuGraphExecUpdate);
  int outcome = 0;
  const CUresult code = update(exec, graph, &outcome);
  if (node != nullptr) *node = nullptr;
  if (result != nullptr) *result = outcome;
  return code;
}

BERTH_CUDA cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, int* result) {
  ENTER(cuGraphExecUpdate_v2);
  int outcome = 0;
  const CUresult code = update(exec, graph, &outcome);
  if (result != nullptr) *result = outcome;
  return code;
}
