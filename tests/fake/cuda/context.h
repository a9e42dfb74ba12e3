// Contexts and the current one of each thread.
#pragma once

#include <cstdint>

#include "fake/cuda/driver.h"

namespace berth::fake::cuda {

struct Context {
  CUdevice device = 0;
  int entry = 0;  // of the state file
  unsigned int flags = 0;
  bool primary = false;
  int retained = 0;  // of a primary context
  int attached = 0;  // further users of another one, by cuCtxAttach
  std::uint64_t id = 0;
  std::uint64_t charged = 0;
  std::uint64_t limits[16] = {};
  std::uint64_t limit_charged = 0;
  std::uint64_t lost_epoch = 0;
  Stream* legacy_stream = nullptr;
  Stream* thread_stream = nullptr;
  Array* arrays = nullptr;  // a list through Array::next
  Block* blocks = nullptr;  // what dies with it: a list through Block::next
};

extern Slab<Context> g_contexts;

// The calling thread's current context; an error if there is none or it has been destroyed.
CUresult current_context(Context** context);
Context* current_or_null();
void set_current(Context* context);
void push_current(Context* context);
bool pop_current(Context** context);

// Doubly linked lists through Block::next, so that whatever dies takes its blocks along.
void link_block(Block*& head, Block& block);
void unlink_block(Block*& head, Block& block);

// With the driver's lock held. A new context's memory is charged; out of memory if it does not fit.
CUresult make_context(CUdevice device, unsigned int flags, bool primary, Context** context);
// Frees everything that was allocated in it, then the context.
void destroy_context(Context* context);
// Whether the device's compute mode lets this process have a context there.
CUresult compute_mode_allows(int entry);
// Tells other processes (compute mode, nvidia-smi) on which devices this one has contexts.
void note_contexts();
// The flags that the primary context of a device has or will have.
unsigned int& primary_flags(CUdevice device);
// Of a child after fork.
void forget_thread();

}  // namespace berth::fake::cuda
