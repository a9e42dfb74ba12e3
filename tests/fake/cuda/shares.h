// Memory that crosses processes: what an exporter writes into the state file and importers enter
// themselves in, so that memory lives as long as any of them.
#pragma once

#include <cstdint>

#include "fake/state/layout.h"

namespace berth::fake::cuda {

// What travels: inside a file descriptor's file, or in the bytes of a handle.
struct Ticket {
  char magic[8];
  std::uint64_t id;
  std::uint64_t bytes;
  std::uint64_t address;  // in the exporter
  std::uint32_t device;
  std::uint32_t kind;
};
static_assert(sizeof(Ticket) <= 64);

enum class TicketKind : std::uint32_t { physical = 1, pool = 2, ipc = 3, pointer = 4 };

// All with the driver's lock held. Returns 0 if the table is full.
std::uint64_t export_share(int entry, Family family, std::uint64_t bytes);
// The exporter lets go: true if somebody else keeps the memory alive, so that the exporter's figure
// drops while the device's use does not.
void release_share(std::uint64_t id);
// Enters this process as an importer; false if the memory is gone.
bool import_share(std::uint64_t id);
void leave_share(std::uint64_t id);
std::uint64_t share_bytes(std::uint64_t id);

Ticket make_ticket(TicketKind kind, std::uint64_t id, int entry, std::uint64_t bytes,
                   std::uint64_t address);
bool is_ticket(const Ticket& ticket, TicketKind kind);
// A descriptor that holds the ticket, -1 if none can be made; and back.
int ticket_to_descriptor(const Ticket& ticket);
bool ticket_from_descriptor(int descriptor, Ticket* ticket);

}  // namespace berth::fake::cuda
