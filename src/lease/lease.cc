#include "lease/lease.h"

#include <array>
#include <utility>

namespace berth::lease {

namespace {

constexpr std::array<std::string_view, 11> kStates = {
    "waiting",   "granted",   "active",  "suspect", "ending", "released",
    "cancelled", "timed-out", "expired", "lost",    "never"};

constexpr std::array kReasons = std::to_array<std::string_view>({"",
                                                                 "no-room",
                                                                 "behind-head",
                                                                 "device-cap",
                                                                 "quota",
                                                                 "stale-samples",
                                                                 "unknown-memory",
                                                                 "no-source",
                                                                 "reconciling",
                                                                 "drained",
                                                                 "unhealthy",
                                                                 "no-eligible-device",
                                                                 "ledger-unwritable",
                                                                 "too-large",
                                                                 "gpu-disabled",
                                                                 "no-such-device",
                                                                 "not-renewed",
                                                                 "process-alive",
                                                                 "not-confirmed",
                                                                 "client-silent",
                                                                 "process-ended",
                                                                 "forced",
                                                                 "queue-timeout",
                                                                 "device-lost",
                                                                 "evicted",
                                                                 "superseded",
                                                                 "overuse"});
static_assert(kReasons.size() == static_cast<std::size_t>(Reason::kCount));

template <typename Enum, std::size_t N>
std::optional<Enum> from_name(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) {
      return static_cast<Enum>(i);
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view state_name(State state) { return kStates[static_cast<std::size_t>(state)]; }

std::optional<State> state_from_name(std::string_view name) {
  return from_name<State>(kStates, name);
}

std::string_view reason_name(Reason reason) { return kReasons[static_cast<std::size_t>(reason)]; }

std::optional<Reason> reason_from_name(std::string_view name) {
  return from_name<Reason>(kReasons, name);
}

bool holds(State state) {
  return state == State::granted || state == State::active || state == State::suspect ||
         state == State::ending;
}

bool is_live(State state) { return state == State::waiting || holds(state); }

const core::DeviceAsk& Ask::gpu() const {
  static const core::DeviceAsk nothing;
  return request.containers().empty() ? nothing : request.containers().front().gpu;
}

}  // namespace berth::lease
