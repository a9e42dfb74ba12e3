// What a node will be as the work on it ends: the known ends in order of time, and what is free on
// the node and on each device after every one of them. Made once when a node changed and asked by
// every shape that plans there.
//
// Thread-safety: none; owned by one engine.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "core/ledger/books.h"
#include "core/model/ids.h"
#include "core/placement/rules.h"
#include "core/placement/shape.h"

namespace berth::core {

// Takes what a reservation holds off a device.
void take_off(DeviceFace& face, const DeviceNeed& need);

// What reservations hold on a node.
struct HeldAhead {
  std::int64_t cpu = 0;  // millicores
  std::int64_t ram = 0;  // bytes
  std::int64_t slots = 0;
  std::vector<std::vector<DeviceNeed>> needs;  // by device place; empty: none on any

  std::span<const DeviceNeed> on(std::size_t place) const {
    return place < needs.size() ? std::span<const DeviceNeed>(needs[place])
                                : std::span<const DeviceNeed>();
  }
};

// Where a shape fits first.
struct EarliestFit {
  std::size_t ends = 0;        // so many of the node's ends must have come
  std::uint64_t places = 0;    // the devices that leave least, of those that fit then
  std::int64_t left_over = 0;  // milli that are free on them before it comes
};

class NodeOutlook {
 public:
  static constexpr Time kReleasing{std::numeric_limits<std::int64_t>::min()};

  struct End {
    Time at;  // kReleasing: it is being released
    WorkloadId workload;
    auto operator<=>(const End&) const = default;
  };

  // What is free on the node itself.
  struct Room {
    std::int64_t cpu = 0;  // millicores
    std::int64_t ram = 0;  // bytes
    std::int64_t slots = 0;
  };

  // Ends in any order, `room` before them.
  void start(std::vector<End> ends, const Room& room);
  // The next end in order frees so much of the node.
  void add_freed(const Room& freed);
  // The next device: as it is.
  void add_device(const DeviceFace& face);
  // The device added last, once the end of this index has come.
  void add_step(std::size_t end, const DeviceFace& face);

  std::span<const End> ends() const { return ends_; }
  // How many of them, the first, are being released.
  std::size_t released() const;
  // What is free once so many ends have come.
  const Room& room_after(std::size_t ends) const { return rooms_[ends]; }
  const DeviceFace& face_after(std::size_t place, std::size_t ends) const;

  // When a simple shape (Shape::simple) fits beside what is held; empty = not by these ends.
  std::optional<EarliestFit> earliest(const Shape& shape, const StaticFit& fit,
                                      const HeldAhead& held) const;

 private:
  struct Step {
    std::size_t ends = 0;
    DeviceFace face;
  };

  std::span<const Step> steps_of(std::size_t place) const;
  std::optional<std::size_t> room_for(const Shape& shape, const HeldAhead& held) const;

  std::vector<End> ends_;
  std::vector<Room> rooms_;  // by the number of ends that have come
  std::vector<Step> steps_;  // device by device, each in order
  std::vector<std::size_t> first_;
};

}  // namespace berth::core
