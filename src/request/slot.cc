#include "request/slot.h"

#include <fmt/format.h>

#include "base/sha256.h"

namespace berth::request {

namespace {

constexpr std::size_t kMostSlot = 40;
constexpr std::size_t kHashDigits = 8;

}  // namespace

std::string slot_of(std::string_view container) {
  if (container.size() <= kMostSlot) {
    return std::string(container);
  }
  return fmt::format("{}-{}", container.substr(0, kMostSlot - 1 - kHashDigits),
                     sha256_hex(container, kHashDigits));
}

std::string slot_key(std::string_view container, std::string_view field) {
  return fmt::format("berth.dev/{}.{}", slot_of(container), field);
}

std::string slot_reference(std::string_view container, std::string_view field) {
  return fmt::format("metadata.annotations['{}']", slot_key(container, field));
}

}  // namespace berth::request
