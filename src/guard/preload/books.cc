#include "guard/preload/books.h"

#include <sys/mman.h>

#include "guard/preload/depth.h"
#include "guard/preload/grant.h"
#include "guard/preload/message.h"
#include "guard/preload/pools.h"
#include "guard/slots.h"
#include "guard/word.h"

namespace berth::guard {

namespace {

constexpr std::uint64_t kSweepEveryNs = 10'000'000;
constexpr std::uint64_t kClaimEveryNs = 10'000'000;
constexpr int kHighDescriptor = 512;  // out of the way of programs that count on low numbers

DeviceBooks books(int target) {
  return books_of(g_grant.view, static_cast<std::uint32_t>(g_grant.account_index[target]));
}

DeviceAccount& account(int target) {
  return g_grant.view.device(static_cast<std::uint32_t>(g_grant.account_index[target]));
}

SharedAccount shared_account(int fd, const Identity& self) {
  return {.view = g_grant.view, .fd = fd, .inode = g_grant.account_inode, .self = self};
}

// A lock lives as long as its open file description: until the last descriptor of it is closed and
// its last mapping is gone. So a mapping keeps the lock for a program that closes descriptors it
// does not know. It is not the children's (they would keep the lock for us), and where the file
// lies on an overlay it does not help: there the descriptor alone counts, and the dead test.
void anchor_lock(int fd) {
  constexpr std::size_t kPage = 4096;
  void* at = sys::map(nullptr, kPage, PROT_READ, MAP_SHARED, fd);
  if (at != nullptr && sys::advise(at, kPage, MADV_DONTFORK) != 0) sys::unmap(at, kPage);
}

// Opens the account anew and takes a slot. One thread at a time.
std::uint32_t claim(Local& own) {
  char name[16] = {};
  own.self = own_identity(name);
  // A child that was not made by libc's fork still has its parent's.
  close_lock_descriptor();
  int fd = open_account();
  if (fd < 0) return kSlotless;
  const int high = sys::duplicate_from(fd, kHighDescriptor);
  if (high >= 0) {
    sys::close(fd);
    fd = high;
  }
  const SharedAccount shared = shared_account(fd, own.self);
  const std::uint32_t slot = claim_slot(shared, name);
  if (slot == kNoSlot) {
    sys::close(fd);
    return kSlotless;
  }
  // What a former image of this process (exec) held in other slots.
  for (std::uint32_t other = 0; other < shared.view.n_slots(); ++other) {
    if (other == slot || shared.view.owner(other).pid != own.self.pid) continue;
    if (!lock_slot(fd, other)) continue;
    if (is_owner_dead(shared, other)) {
      give_back_everywhere(shared.view, other);
      shared.view.owner(other).pid.store(0, std::memory_order_release);
    }
    unlock_slot(fd, other);
  }
  anchor_lock(fd);
  g_lock_fd.store(fd, std::memory_order_release);
  return slot + 1;
}

// The slot of this process, claimed at the first charge; kSlotless: there is none.
std::uint32_t slot_of_process(Local& own) {
  std::uint32_t slot = own.slot.load(std::memory_order_acquire);
  if (slot != 0 && slot != kSlotless) [[likely]] {
    return slot;
  }
  const ErrorKeeper keeper;
  // There was none, or no descriptor to open the account with; that may have changed.
  const std::uint64_t now = sys::monotonic_ns();
  if (slot == kSlotless && now - own.last_claim_ns.load() < kClaimEveryNs) return kSlotless;
  if (!own.claiming.exchange(true, std::memory_order_acq_rel)) {
    own.last_claim_ns.store(now);
    slot = claim(own);
    own.slot.store(slot, std::memory_order_release);
    own.claiming.store(false, std::memory_order_release);
    return slot;
  }
  // Another thread is claiming; that takes microseconds.
  for (int turn = 0; turn < 1000 && own.slot.load(std::memory_order_acquire) == 0; ++turn)
    sys::sleep_until(sys::monotonic_ns() + 50'000);
  slot = own.slot.load(std::memory_order_acquire);
  return slot != 0 ? slot : kSlotless;
}

// Applies a change in the name of this process. False: over the cap.
bool change(Local& own, std::uint32_t slot, int target, std::int64_t delta, std::uint64_t cap) {
  DirectAccess access;
  const Locked locked(own.lock);
  std::uint64_t& held = own.held[target];
  if (!apply_charge(access, books(target),
                    {.slot = slot - 1, .held = held, .delta = delta, .cap = cap})) {
    return false;
  }
  held = changed_by(held, delta);
  return true;
}

// Gives back what dead processes hold, at most once per 10 ms. False: it was not the time for it.
bool sweep(Local& own) {
  const std::uint64_t now = sys::monotonic_ns();
  const std::uint64_t last = own.last_sweep_ns.load(std::memory_order_acquire);
  if (last != 0 && now - last < kSweepEveryNs) return false;
  if (own.sweeping.exchange(true, std::memory_order_acq_rel)) return false;
  own.last_sweep_ns.store(now, std::memory_order_release);
  // With locks of their own: this process's descriptor may be closed, or two threads may sweep.
  const int fd = open_account();
  std::uint32_t reclaimed = 0;
  if (fd >= 0) {
    const std::uint32_t slot = own.slot.load(std::memory_order_acquire);
    reclaimed = reclaim_dead(shared_account(fd, own.self),
                             slot != 0 && slot != kSlotless ? slot - 1 : kNoSlot);
    sys::close(fd);
  }
  own.sweeping.store(false, std::memory_order_release);
  return reclaimed != 0;
}

}  // namespace

Charging try_charge(int target, std::uint64_t bytes) {
  if (target == kDenied) return Charging::refused;
  if (bytes == 0) return Charging::charged;
  Local* own = local();
  if (own == nullptr) return Charging::uncounted;
  const std::uint32_t slot = slot_of_process(*own);
  if (slot == kSlotless) [[unlikely]] {
    if (g_grant.fails_closed) return Charging::refused;
    account(target).overshoot.fetch_add(bytes, std::memory_order_relaxed);
    return Charging::uncounted;
  }
  if (bytes >= kImpossible) return Charging::refused;
  return change(*own, slot, target, static_cast<std::int64_t>(bytes), cap_of(target))
             ? Charging::charged
             : Charging::refused;
}

Charging charge(int target, std::uint64_t bytes, bool quiet) {
  Charging charging = try_charge(target, bytes);
  if (charging != Charging::refused) [[likely]] {
    return charging;
  }
  if (target != kDenied && bytes < kImpossible) {
    make_room();
    charging = try_charge(target, bytes);
  }
  if (charging == Charging::refused && !quiet) refuse(target, bytes);
  return charging;
}

void make_room() {
  const ErrorKeeper keeper;
  settle_dirty_pools();
  if (Local* own = local()) sweep(*own);
}

void refuse(int target, std::uint64_t bytes) {
  const ErrorKeeper keeper;
  if (target != kDenied) account(target).refused.fetch_add(1, std::memory_order_relaxed);
  print_refusal(target, bytes);
}

void charge_always(int target, std::uint64_t bytes) {
  if (target == kDenied || bytes == 0 || bytes >= kImpossible) return;
  Local* own = local();
  if (own == nullptr) return;
  const std::uint32_t slot = slot_of_process(*own);
  if (slot == kSlotless) return;
  const std::uint64_t cap = cap_of(target);
  if (!change(*own, slot, target, static_cast<std::int64_t>(bytes), kNoCap)) return;
  const std::uint64_t now = charged_on(target);
  if (now > cap) {
    const std::uint64_t over = now - cap;
    account(target).overshoot.fetch_add(over < bytes ? over : bytes, std::memory_order_relaxed);
  }
}

void release(int target, std::uint64_t bytes) {
  if (target == kDenied || bytes == 0) return;
  Local* own = local();
  const std::uint32_t slot = own->slot.load(std::memory_order_acquire);
  if (slot == 0 || slot == kSlotless) return;  // charged before a fork: the parent's
  change(*own, slot, target, -static_cast<std::int64_t>(bytes), kNoCap);
}

std::uint64_t charged_on(int target) {
  if (target == kDenied) return 0;
  return bytes_of(account(target).word.load(std::memory_order_acquire));
}

void enter(Table& table, std::uint64_t key, std::uint64_t value) {
  Local& own = *local();
  if (key == 0) return;
  own.lock.lock();
  while (!table.has_room()) {
    const std::size_t capacity = table.next_capacity();
    own.lock.unlock();
    Table::Item* memory = Table::memory_for(capacity);
    own.lock.lock();
    if (memory == nullptr) {
      own.lock.unlock();
      return;
    }
    if (table.next_capacity() != capacity) {  // another thread was faster
      own.lock.unlock();
      Table::give_up(memory, capacity);
      own.lock.lock();
      continue;
    }
    const std::size_t old_capacity = table.capacity();
    Table::Item* old = table.move_into(memory, capacity);
    own.lock.unlock();
    Table::give_up(old, old_capacity);
    own.lock.lock();
  }
  table.insert(key, value);
  own.lock.unlock();
}

bool drop(Table& table, std::uint64_t key) {
  Local* own = local();
  if (own == nullptr) return false;
  std::uint64_t value = 0;
  DirectAccess access;
  const Locked locked(own->lock);
  if (!table.take(key, value)) return false;
  const Held object = Held::of(value);
  const std::uint32_t slot = own->slot.load(std::memory_order_relaxed);
  if (object.bytes == 0 || object.target < 0 || object.target == kDenied || slot == kSlotless) {
    return true;
  }
  std::uint64_t& held = own->held[object.target];
  const auto delta = -static_cast<std::int64_t>(object.bytes);
  if (apply_charge(access, books(object.target),
                   {.slot = slot - 1, .held = held, .delta = delta, .cap = kNoCap})) {
    held = changed_by(held, delta);
  }
  return true;
}

void drop_objects_of(std::uint32_t context) {
  Local& own = *local();
  std::uint64_t freed[kTargets] = {};
  {
    const Locked locked(own.lock);
    own.pointers.take_if([&](std::uint64_t, std::uint64_t value) {
      const Held object = Held::of(value);
      if (object.context != context) return false;
      if (object.target >= 0) freed[object.target] += object.bytes;
      return true;
    });
  }
  for (int target = 0; target < kTargets; ++target)
    release(target, freed[target]);
}

}  // namespace berth::guard
