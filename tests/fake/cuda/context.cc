#include "fake/cuda/context.h"

#include <algorithm>
#include <vector>

#include "fake/cuda/array.h"
#include "fake/cuda/graph.h"
#include "fake/cuda/memory.h"
#include "fake/cuda/module.h"
#include "fake/cuda/pool.h"
#include "fake/cuda/stream.h"

namespace berth::fake::cuda {

Slab<Context> g_contexts;

namespace {

// Two words of static thread storage: a library that is opened late gets no more for certain.
struct ThreadState {
  Context* current;
  std::vector<Context*>* stack;  // below the current one
};
__attribute__((tls_model("initial-exec"))) thread_local ThreadState t_state;

}  // namespace

Context* current_or_null() { return t_state.current; }

CUresult current_context(Context** context) {
  Context* current = t_state.current;
  if (current == nullptr) return kInvalidContext;
  if (!g_contexts.is_live(current)) return kContextIsDestroyed;
  if (current->lost_epoch != driver().entry(current->entry).lost_epoch.load()) return kUnknown;
  *context = current;
  return kSuccess;
}

void set_current(Context* context) { t_state.current = context; }

void push_current(Context* context) {
  if (t_state.stack == nullptr) t_state.stack = new std::vector<Context*>;
  t_state.stack->push_back(t_state.current);
  t_state.current = context;
}

bool pop_current(Context** context) {
  if (t_state.current == nullptr) return false;
  *context = t_state.current;
  t_state.current = nullptr;
  if (t_state.stack != nullptr && !t_state.stack->empty()) {
    t_state.current = t_state.stack->back();
    t_state.stack->pop_back();
  }
  return true;
}

void forget_thread() {
  t_state.current = nullptr;
  if (t_state.stack != nullptr) t_state.stack->clear();
}

void link_block(Block*& head, Block& block) {
  block.previous = nullptr;
  block.next = head;
  if (head != nullptr) head->previous = &block;
  head = &block;
}

void unlink_block(Block*& head, Block& block) {
  if (block.previous != nullptr) {
    block.previous->next = block.next;
  } else {
    head = block.next;
  }
  if (block.next != nullptr) block.next->previous = block.previous;
  block.next = nullptr;
  block.previous = nullptr;
}

CUresult make_context(CUdevice device, unsigned int flags, bool primary, Context** context) {
  static std::uint64_t ids = 0;
  Driver& the_driver = driver();
  const int entry = the_driver.entry_of(device);
  const DeviceEntry& state = the_driver.entry(entry);
  if (state.lost.load() != 0) return kUnknown;
  if (const CUresult refused = compute_mode_allows(entry); refused != kSuccess) return refused;
  if (!the_driver.books().charge(entry, Family::context, state.context_bytes)) return kOutOfMemory;
  Context* made = g_contexts.make();
  if (made == nullptr) {
    the_driver.books().release(entry, Family::context, state.context_bytes);
    return kOutOfMemory;
  }
  made->device = device;
  made->entry = entry;
  made->flags = flags;
  made->primary = primary;
  made->id = ++ids;
  made->charged = state.context_bytes;
  made->lost_epoch = state.lost_epoch.load();
  if (!make_streams(*made)) {
    the_driver.books().release(entry, Family::context, state.context_bytes);
    g_contexts.destroy(made);
    return kOutOfMemory;
  }
  made->limits[0] = 1024;      // stack bytes per thread
  made->limits[1] = 1U << 20;  // printf buffer
  made->limits[2] = 8U << 20;  // device heap
  made->limits[3] = 2;
  made->limits[4] = 2048;
  made->limits[5] = 128;
  the_driver.contexts.push_back(made);
  note_contexts();
  *context = made;
  return kSuccess;
}

CUresult compute_mode_allows(int entry) {
  Books& books = driver().books();
  const std::uint32_t mode = driver().entry(entry).compute_mode.load();
  if (mode == 0) return kSuccess;
  if (mode == 2) return kDeviceUnavailable;
  for (int slot = 0; slot < books.slots_high(); ++slot) {
    if (slot == books.slot()) continue;
    const Owner& owner = books.state().owners[slot];
    const std::uint64_t bits = (entry < 64 ? owner.contexts : owner.contexts_high).load();
    if ((bits >> (static_cast<unsigned>(entry) % 64U) & 1U) != 0 && books.lives(slot)) {
      return kDeviceUnavailable;
    }
  }
  return kSuccess;
}

unsigned int& primary_flags(CUdevice device) {
  static unsigned int flags[kMaxDevices] = {};
  return flags[driver().entry_of(device)];
}

void note_contexts() {
  std::uint64_t bits[2] = {};
  for (const Context* context : driver().contexts) {
    bits[context->entry / 64] |= std::uint64_t{1} << (static_cast<unsigned>(context->entry) % 64U);
  }
  Owner& owner = driver().books().own_owner();
  owner.contexts.store(bits[0]);
  owner.contexts_high.store(bits[1]);
}

void destroy_context(Context* context) {
  Driver& the_driver = driver();
  Books& books = the_driver.books();
  drop_streams(*context);
  drop_arrays(*context);
  drop_modules(*context);
  for (Block* block = context->blocks; block != nullptr;) {
    Block* next = block->next;
    free_block(block);
    block = next;
  }
  books.release(context->entry, Family::heap, context->limit_charged);
  books.release(context->entry, Family::context, context->charged);
  std::erase(the_driver.contexts, context);
  const bool was_last =
      std::none_of(the_driver.contexts.begin(), the_driver.contexts.end(),
                   [&](const Context* other) { return other->entry == context->entry; });
  if (was_last) {
    drop_pools(context->entry);
    drop_graph_memory(context->entry);
  }
  if (t_state.current == context) {
    Context* dropped = nullptr;
    (void)pop_current(&dropped);
  }
  g_contexts.destroy(context);
  note_contexts();
}

}  // namespace berth::fake::cuda
