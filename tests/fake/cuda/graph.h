// Graphs, the memory that their nodes allocate, and captures that make them.
//
// Memory nodes have addresses from the start and memory only once they have run: a launch takes
// what its allocations need from the device's graph memory, which grows in steps of 2 MiB and
// shrinks only when it is trimmed (cuDeviceGraphMemTrim) or the device's last context goes.
#pragma once

#include <vector>

#include "fake/cuda/memory.h"
#include "fake/cuda/stream.h"

namespace berth::fake::cuda {

enum class NodeType : int {
  kernel = 0,
  memcpy = 1,
  memset = 2,
  host = 3,
  graph = 4,
  empty = 5,
  wait_event = 6,
  record_event = 7,
  signal_semaphore = 8,
  wait_semaphore = 9,
  allocate = 10,
  free = 11,
  batch = 12,
};

// What a memory node allocates: the address for good, the memory while `live`.
struct GraphAllocation {
  Block* block = nullptr;
  int entry = 0;
  int references = 0;  // nodes and executables
  bool live = false;
};

struct Node {
  Graph* graph = nullptr;
  NodeType type = NodeType::empty;
  std::vector<Node*> dependencies = {};
  AllocNodeParams parameters{};
  GraphAllocation* allocation = nullptr;  // of an allocate node
  CUdeviceptr pointer = 0;                // of a free node
  Graph* child = nullptr;
  std::uint64_t duration_ns = 0;
  unsigned char raw[256] = {};  // parameters as given, for those who ask
};

struct Graph {
  std::vector<Node*> nodes = {};
  int executables = 0;
  bool owned = false;  // a child: ends with its node
};

// One step of an executable that concerns memory, in order.
struct MemoryStep {
  GraphAllocation* allocation = nullptr;  // allocated, or freed if `frees`
  bool frees = false;
  CUdeviceptr pointer = 0;  // of a free of another graph's allocation
};

struct GraphExec {
  Graph* graph = nullptr;  // null once the graph is gone
  unsigned long long flags = 0;
  std::vector<MemoryStep> steps = {};
  std::uint64_t duration_ns = 0;
};

// A device's graph memory.
struct GraphMemory {
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t reserved = 0;
  std::uint64_t reserved_high = 0;
};

struct Capture {
  Graph* graph = nullptr;
  Stream* origin = nullptr;
  std::uint64_t id = 0;
  bool invalidated = false;
  bool to_given_graph = false;
};

extern Slab<Graph> g_graphs;
extern Slab<Node> g_nodes;
extern Slab<GraphExec> g_graph_execs;

// All with the driver's lock held unless said otherwise.
GraphMemory& graph_memory(int entry);
void drop_graph_memory(int entry);
void trim_graph_memory(int entry);
Node* add_node(Graph& graph, NodeType type, const CUgraphNode* dependencies, std::size_t count);
CUresult add_allocation(Graph& graph, const CUgraphNode* dependencies, std::size_t count,
                        AllocNodeParams& parameters, Node** node);
// Frees a live allocation by its address, outside of graphs.
void free_graph_block(Block* block);
CUresult instantiate(Graph& graph, unsigned long long flags, GraphExec** exec);
CUresult upload(GraphExec& exec, Stream& stream);
CUresult launch(GraphExec& exec, Stream& stream);
void destroy_exec(GraphExec* exec);
void destroy_graph(Graph* graph);
void destroy_node(Node* node);
Graph* clone(const Graph& graph);

// Captures. Without the lock:
CUresult invalidate_capture(Stream& stream);
CUresult capture_plain(Stream& stream, NodeType type, std::uint64_t duration_ns);
// With it:
CUresult join_capture(Stream& stream, const Event& event);
void leave_capture(Stream& stream);
void append_to_capture(Stream& stream, Node* node);

}  // namespace berth::fake::cuda
