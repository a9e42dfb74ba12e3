#include "fake/cuda/graph.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "fake/cuda/pool.h"

namespace berth::fake::cuda {

Slab<Graph> g_graphs;
Slab<Node> g_nodes;
Slab<GraphExec> g_graph_execs;

namespace {

Slab<GraphAllocation> g_allocations;
constexpr unsigned long long kAutoFreeOnLaunch = 1;

void release(GraphAllocation* allocation) {
  if (--allocation->references > 0 || allocation->live) return;
  driver().space.give_back(allocation->block);
  g_allocations.destroy(allocation);
}

void make_live(GraphAllocation& allocation) {
  allocation.live = true;
  GraphMemory& memory = graph_memory(allocation.entry);
  memory.used += allocation.block->physical;
  memory.used_high = std::max(memory.used_high, memory.used);
}

void make_dead(GraphAllocation& allocation) {
  if (!allocation.live) return;
  allocation.live = false;
  graph_memory(allocation.entry).used -= allocation.block->physical;
}

GraphAllocation* allocation_at(CUdeviceptr pointer) {
  Block* block = driver().find(pointer);
  if (block == nullptr || block->base != pointer || block->kind != BlockKind::graph) return nullptr;
  return static_cast<GraphAllocation*>(block->extra);
}

bool has_memory_nodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node* node) {
    return node->type == NodeType::allocate ||
           (node->child != nullptr && has_memory_nodes(*node->child));
  });
}

void collect(const Graph& graph, GraphExec& exec) {
  for (const Node* node : graph.nodes) {
    exec.duration_ns += node->duration_ns;
    if (node->type == NodeType::allocate) {
      ++node->allocation->references;
      exec.steps.push_back({.allocation = node->allocation});
    } else if (node->type == NodeType::free) {
      exec.steps.push_back({.frees = true, .pointer = node->pointer});
    } else if (node->child != nullptr) {
      collect(*node->child, exec);
    }
  }
}

// What the executable's allocations need at most at once, by device: one that is freed on the way
// makes room for a later one.
std::map<int, std::uint64_t> peaks(const GraphExec& exec) {
  std::map<int, std::uint64_t> now;
  std::map<int, std::uint64_t> most;
  for (const MemoryStep& step : exec.steps) {
    const GraphAllocation* allocation = step.frees ? allocation_at(step.pointer) : step.allocation;
    if (allocation == nullptr) continue;
    std::uint64_t& held = now[allocation->entry];
    if (!step.frees) {
      held += allocation->block->physical;
    } else {
      held -= std::min(held, allocation->block->physical);
    }
    most[allocation->entry] = std::max(most[allocation->entry], held);
  }
  return most;
}

CUresult grow_for(const GraphExec& exec) {
  std::vector<std::pair<int, std::uint64_t>> grown;
  for (const auto& [entry, peak] : peaks(exec)) {
    GraphMemory& memory = graph_memory(entry);
    if (memory.used + peak <= memory.reserved) continue;
    const std::uint64_t growth = rounded_up(memory.used + peak - memory.reserved, kPoolStep);
    if (!driver().books().charge(entry, Family::graph, growth)) {
      for (const auto& [other, bytes] : grown) {
        driver().books().release(other, Family::graph, bytes);
        graph_memory(other).reserved -= bytes;
      }
      return kOutOfMemory;
    }
    memory.reserved += growth;
    memory.reserved_high = std::max(memory.reserved_high, memory.reserved);
    grown.emplace_back(entry, growth);
  }
  return kSuccess;
}

}  // namespace

GraphMemory& graph_memory(int entry) {
  static GraphMemory memory[kMaxDevices];
  return memory[entry];
}

void trim_graph_memory(int entry) {
  GraphMemory& memory = graph_memory(entry);
  const std::uint64_t wanted = rounded_up(memory.used, kPoolStep);
  if (wanted >= memory.reserved) return;
  driver().books().release(entry, Family::graph, memory.reserved - wanted);
  memory.reserved = wanted;
}

void drop_graph_memory(int entry) {
  g_allocations.each([&](GraphAllocation* allocation) {
    if (allocation->entry != entry || !allocation->live) return;
    make_dead(*allocation);
    if (allocation->references == 0) {
      allocation->references = 1;
      release(allocation);
    }
  });
  trim_graph_memory(entry);
}

Node* add_node(Graph& graph, NodeType type, const CUgraphNode* dependencies, std::size_t count) {
  for (std::size_t place = 0; place < count; ++place) {
    if (!g_nodes.is_live(dependencies[place]) || dependencies[place]->graph != &graph) {
      return nullptr;
    }
  }
  Node* node = g_nodes.make();
  if (node == nullptr) return nullptr;
  node->graph = &graph;
  node->type = type;
  if (count > 0) node->dependencies.assign(dependencies, dependencies + count);
  graph.nodes.push_back(node);
  return node;
}

CUresult add_allocation(Graph& graph, const CUgraphNode* dependencies, std::size_t count,
                        AllocNodeParams& parameters, Node** node) {
  const MemLocation where = parameters.pool.location;
  if (parameters.bytes == 0 || parameters.pool.type != 1 || where.type != 1) return kInvalidValue;
  if (!driver().is_device(where.id)) return kInvalidDevice;
  if (parameters.bytes > driver().books().room(driver().entry_of(where.id))) return kOutOfMemory;
  Block* block = driver().space.take(rounded_up(parameters.bytes, kGranule));
  if (block == nullptr) return kOutOfMemory;
  GraphAllocation* allocation = g_allocations.make();
  Node* made =
      allocation == nullptr ? nullptr : add_node(graph, NodeType::allocate, dependencies, count);
  if (made == nullptr) {
    if (allocation != nullptr) g_allocations.destroy(allocation);
    driver().space.give_back(block);
    return kInvalidValue;
  }
  block->kind = BlockKind::graph;
  block->asked = parameters.bytes;
  block->physical = rounded_up(parameters.bytes, kGranule);
  block->device = driver().entry_of(where.id);
  block->context = current_or_null();
  block->extra = allocation;
  *allocation = {.block = block, .entry = block->device, .references = 1};
  parameters.pointer = block->base;
  made->parameters = parameters;
  made->allocation = allocation;
  *node = made;
  return kSuccess;
}

void free_graph_block(Block* block) {
  auto* allocation = static_cast<GraphAllocation*>(block->extra);
  make_dead(*allocation);
  if (allocation->references > 0) return;
  allocation->references = 1;
  release(allocation);
}

CUresult instantiate(Graph& graph, unsigned long long flags, GraphExec** exec) {
  // A graph with memory nodes has one executable at a time.
  if (graph.executables > 0 && has_memory_nodes(graph)) return kNotSupported;
  GraphExec* made = g_graph_execs.make();
  if (made == nullptr) return kOutOfMemory;
  made->graph = &graph;
  made->flags = flags;
  collect(graph, *made);
  ++graph.executables;
  *exec = made;
  return kSuccess;
}

CUresult upload(GraphExec& exec, Stream&) { return grow_for(exec); }

CUresult launch(GraphExec& exec, Stream& stream) {
  for (const MemoryStep& step : exec.steps) {
    if (step.frees || !step.allocation->live) continue;
    if ((exec.flags & kAutoFreeOnLaunch) == 0) return kInvalidValue;
    make_dead(*step.allocation);
  }
  if (const CUresult code = grow_for(exec); code != kSuccess) return code;
  for (const MemoryStep& step : exec.steps) {
    if (!step.frees) {
      make_live(*step.allocation);
    } else if (GraphAllocation* allocation = allocation_at(step.pointer); allocation != nullptr) {
      make_dead(*allocation);
    }
  }
  add_work(stream, exec.duration_ns);
  return kSuccess;
}

void destroy_exec(GraphExec* exec) {
  if (exec->graph != nullptr && g_graphs.is_live(exec->graph)) --exec->graph->executables;
  for (const MemoryStep& step : exec->steps) {
    if (!step.frees) release(step.allocation);
  }
  g_graph_execs.destroy(exec);
}

void destroy_node(Node* node) {
  std::erase(node->graph->nodes, node);
  for (Node* other : node->graph->nodes)
    std::erase(other->dependencies, node);
  if (node->allocation != nullptr) release(node->allocation);
  if (node->child != nullptr) destroy_graph(node->child);
  g_nodes.destroy(node);
}

void destroy_graph(Graph* graph) {
  while (!graph->nodes.empty())
    destroy_node(graph->nodes.back());
  g_graph_execs.each([&](GraphExec* exec) {
    if (exec->graph == graph) exec->graph = nullptr;
  });
  g_graphs.destroy(graph);
}

Graph* clone(const Graph& graph) {
  Graph* copy = g_graphs.make();
  if (copy == nullptr) return nullptr;
  std::map<const Node*, Node*> twins;
  for (const Node* node : graph.nodes) {
    Node* twin = g_nodes.make(*node);
    if (twin == nullptr) return copy;
    twin->graph = copy;
    if (twin->allocation != nullptr) ++twin->allocation->references;
    if (twin->child != nullptr) twin->child = clone(*node->child);
    for (Node*& dependency : twin->dependencies)
      dependency = twins[dependency];
    twins[node] = twin;
    copy->nodes.push_back(twin);
  }
  return copy;
}

CUresult invalidate_capture(Stream& stream) {
  const Guard guard(driver().lock);
  if (stream.capture != nullptr) stream.capture->invalidated = true;
  return kStreamCaptureUnsupported;
}

CUresult capture_plain(Stream& stream, NodeType type, std::uint64_t duration_ns) {
  const Guard guard(driver().lock);
  if (stream.capture->invalidated) return kStreamCaptureInvalidated;
  Node* node =
      add_node(*stream.capture->graph, type, stream.frontier.data(), stream.frontier.size());
  if (node == nullptr) return kOutOfMemory;
  node->duration_ns = duration_ns;
  append_to_capture(stream, node);
  return kSuccess;
}

CUresult join_capture(Stream& stream, const Event& event) {
  if (stream.capture != nullptr && stream.capture != event.capture) {
    return kStreamCaptureInvalidated;
  }
  if (stream.capture == nullptr) stream.frontier.clear();
  stream.capture = event.capture;
  for (Node* node : event.frontier) {
    if (std::find(stream.frontier.begin(), stream.frontier.end(), node) == stream.frontier.end()) {
      stream.frontier.push_back(node);
    }
  }
  return kSuccess;
}

// A stream that goes away while capturing ends the capture as a failure.
void leave_capture(Stream& stream) {
  if (stream.capture == nullptr) return;
  stream.capture->invalidated = true;
  stream.capture = nullptr;
}

void append_to_capture(Stream& stream, Node* node) { stream.frontier.assign(1, node); }

}  // namespace berth::fake::cuda
