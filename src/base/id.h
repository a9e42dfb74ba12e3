// Id<Tag>: a dense index that names one thing inside one owner, and cannot name anything else.
//
// Ids are given out by the owner (a Fleet, an Engine) and are stable for the life of the thing. The
// names that people and drivers use (node name, device UUID, workload UID) are strings beside them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace berth {

template <typename Tag>
class Id {
 public:
  constexpr Id() = default;

  constexpr explicit Id(std::uint32_t value) : value_(value) {}

  constexpr explicit Id(std::size_t value) : value_(static_cast<std::uint32_t>(value)) {}

  static constexpr Id none() { return Id(); }

  constexpr bool is_none() const { return value_ == kNone; }

  constexpr std::uint32_t value() const { return value_; }

  constexpr std::size_t index() const { return value_; }

  constexpr auto operator<=>(const Id&) const = default;

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t value_ = kNone;
};

}  // namespace berth

template <typename Tag>
struct std::hash<berth::Id<Tag>> {
  std::size_t operator()(berth::Id<Tag> id) const noexcept { return id.index(); }
};
