#include "fake/cuda/shares.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "fake/cuda/driver.h"

namespace berth::fake::cuda {

namespace {

constexpr char kTicketMagic[8] = {'B', 'F', 'K', 'T', 'I', 'C', 'K', '1'};

Share* share_with(std::uint64_t id) {
  if (id == 0) return nullptr;
  for (Share& share : driver().books().state().shares) {
    if (share.used.load(std::memory_order_acquire) == 2 && share.id == id) return &share;
  }
  return nullptr;
}

std::uint64_t importer_word(Books& books) {
  return books.own_owner().generation << 16U | (static_cast<std::uint64_t>(books.slot()) + 1);
}

bool importer_lives(Books& books, std::uint64_t word) {
  const int slot = static_cast<int>(word & 0xFFFFU) - 1;
  return books.state().owners[slot].generation == word >> 16U && books.lives(slot);
}

bool exporter_holds(Books& books, const Share& share) {
  const auto slot = static_cast<int>(share.exporter_slot);
  return share.released.load() == 0 &&
         books.state().owners[slot].generation == share.exporter_generation && books.lives(slot);
}

// Entries whose exporter and importers are all gone.
void sweep(Books& books) {
  for (Share& share : books.state().shares) {
    if (share.used.load() == 0 || exporter_holds(books, share)) continue;
    bool kept = false;
    for (Word& importer : share.importer) {
      const std::uint64_t word = importer.load();
      if (word == 0) continue;
      if (importer_lives(books, word)) {
        kept = true;
      } else {
        importer.store(0);
      }
    }
    if (!kept) share.used.store(0);
  }
}

}  // namespace

std::uint64_t export_share(int entry, Family family, std::uint64_t bytes) {
  Books& books = driver().books();
  const Books::Lock lock(books);
  sweep(books);
  for (Share& share : books.state().shares) {
    if (share.used.load() != 0) continue;
    share.used.store(1);
    share.device = static_cast<std::uint32_t>(entry);
    share.family = static_cast<std::uint32_t>(family);
    share.exporter_slot = static_cast<std::uint32_t>(books.slot());
    share.exporter_generation = books.own_owner().generation;
    share.bytes = bytes;
    share.id = books.state().header.share_ids.fetch_add(1) + 1;
    share.released.store(0);
    for (Word& importer : share.importer)
      importer.store(0);
    share.used.store(2, std::memory_order_release);
    books.state().header.charge_special.fetch_or(kChargeShares);
    return share.id;
  }
  return 0;
}

void release_share(std::uint64_t id) {
  if (Share* share = share_with(id); share != nullptr) share->released.store(1);
}

bool import_share(std::uint64_t id) {
  Books& books = driver().books();
  const Books::Lock lock(books);
  sweep(books);
  Share* share = share_with(id);
  if (share == nullptr) return false;
  for (Word& importer : share->importer) {
    if (importer.load() != 0) continue;
    importer.store(importer_word(books), std::memory_order_release);
    return true;
  }
  return false;
}

void leave_share(std::uint64_t id) {
  Share* share = share_with(id);
  if (share == nullptr) return;
  const std::uint64_t own = importer_word(driver().books());
  for (Word& importer : share->importer) {
    if (importer.load() != own) continue;
    importer.store(0, std::memory_order_release);
    return;
  }
}

std::uint64_t share_bytes(std::uint64_t id) {
  const Share* share = share_with(id);
  return share == nullptr ? 0 : share->bytes;
}

Ticket make_ticket(TicketKind kind, std::uint64_t id, int entry, std::uint64_t bytes,
                   std::uint64_t address) {
  Ticket ticket{};
  std::memcpy(ticket.magic, kTicketMagic, sizeof kTicketMagic);
  ticket.id = id;
  ticket.bytes = bytes;
  ticket.address = address;
  ticket.device = static_cast<std::uint32_t>(entry);
  ticket.kind = static_cast<std::uint32_t>(kind);
  return ticket;
}

bool is_ticket(const Ticket& ticket, TicketKind kind) {
  return std::memcmp(ticket.magic, kTicketMagic, sizeof kTicketMagic) == 0 &&
         ticket.kind == static_cast<std::uint32_t>(kind);
}

int ticket_to_descriptor(const Ticket& ticket) {
  const int fd = memfd_create("berth-fake-memory", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (write(fd, &ticket, sizeof ticket) != static_cast<ssize_t>(sizeof ticket)) {
    (void)close(fd);
    return -1;
  }
  return fd;
}

bool ticket_from_descriptor(int descriptor, Ticket* ticket) {
  return pread(descriptor, ticket, sizeof *ticket, 0) == static_cast<ssize_t>(sizeof *ticket);
}

}  // namespace berth::fake::cuda
