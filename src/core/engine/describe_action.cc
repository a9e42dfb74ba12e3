#include <iterator>

#include <fmt/format.h>

#include "base/printable.h"
#include "core/engine/describe.h"

namespace berth::core {

namespace {

class ActionText {
 public:
  ActionText(const Engine& engine, const std::vector<ContainerGrant>& places)
      : engine_(engine), places_(places) {}

  std::string operator()(const Granted& a) const {
    if (a.node.is_none()) {
      return fmt::format("granted {}: its minimum runs", workload(a.workload));
    }
    return fmt::format("granted {} on {}{}", workload(a.workload), node(a.node),
                       places(a.workload));
  }

  std::string operator()(const Promised& a) const {
    return fmt::format("promised {} on {}{}", workload(a.workload), node(a.node),
                       places(a.workload));
  }

  std::string operator()(const Retracted& a) const {
    return fmt::format("retracted {}{}{}", workload(a.workload), a.lost ? ", lost" : "",
                       why(a.why));
  }

  std::string operator()(const Evicted& a) const {
    return fmt::format("evicted {}: {}", workload(a.workload), a.text);
  }

  std::string operator()(const VerdictChanged& a) const {
    return fmt::format("{} is {}{}", workload(a.workload), outcome_name(a.outcome), why(a.cause));
  }

  std::string operator()(const Ended& a) const {
    return fmt::format("ended {}{}", workload(a.workload), why(a.why));
  }

  std::string operator()(const WakeAt& a) const {
    return fmt::format("wake at {} ms", a.time.ms());
  }

  std::string operator()(const Notice& a) const {
    std::string text = fmt::format("notice {}", kind(a.kind));
    auto out = std::back_inserter(text);
    if (!a.device.is_none()) {
      fmt::format_to(out, ", device {}", device(a.device));
    }
    if (!a.workload.is_none()) {
      fmt::format_to(out, ", {}", workload(a.workload));
    }
    if (a.bytes != 0) {
      fmt::format_to(out, ", {} bytes", a.bytes);
    }
    if (!a.text.empty()) {
      fmt::format_to(out, ": {}", a.text);
    }
    return text;
  }

 private:
  static std::string why(Cause cause) {
    return cause == Cause::none ? "" : fmt::format(": {}", cause_name(cause));
  }

  static std::string_view kind(Notice::Kind kind) {
    constexpr std::string_view kNames[] = {"overuse",    "foreign-changed", "promise-at-risk",
                                           "clock-skew", "queue-problem",   "refused-event"};
    return kNames[static_cast<std::size_t>(kind)];
  }

  std::string workload(WorkloadId id) const {
    const std::string_view name = uid(id);
    return name.empty() ? fmt::format("workload #{}", id.value()) : std::string(name);
  }

  std::string_view uid(WorkloadId id) const {
    return id.is_none() ? std::string_view() : engine_.uid(id);
  }

  std::string node(NodeId id) const {
    return id.index() < engine_.fleet().node_slots() ? engine_.fleet().node(id).name
                                                     : fmt::format("node #{}", id.value());
  }

  std::string device(DeviceId id) const {
    return id.index() < engine_.fleet().device_slots() ? engine_.fleet().uuid(id)
                                                       : fmt::format("device #{}", id.value());
  }

  std::string places(WorkloadId id) const {
    std::string text;
    auto out = std::back_inserter(text);
    const auto known = engine_.workload(uid(id));
    for (const ContainerGrant& place : places_) {
      const bool named = known && place.container < known->request().containers().size();
      for (const DeviceShare& share : place.shares) {
        fmt::format_to(out, "{}{} {} {} MiB", text.empty() ? ": " : ", ",
                       named ? known->request().containers()[place.container].name
                             : fmt::format("container {}", place.container),
                       device(share.device), share.request_mib);
        if (share.limit_mib != share.request_mib) {
          fmt::format_to(out, " (limit {} MiB)", share.limit_mib);
        }
      }
    }
    return text;
  }

  const Engine& engine_;
  const std::vector<ContainerGrant>& places_;
};

}  // namespace

std::string describe(const LoggedAction& logged, const Engine& engine) {
  return printable(std::visit(ActionText(engine, logged.places), logged.action));
}

std::string describe(const Action& action, const Engine& engine) {
  LoggedAction logged{.action = action, .places = {}};
  const auto* granted = std::get_if<Granted>(&action);
  const auto* promised = std::get_if<Promised>(&action);
  if (granted != nullptr || promised != nullptr) {
    const Grant* grant = engine.grant(granted != nullptr ? granted->workload : promised->workload);
    if (grant != nullptr) {
      logged.places = grant->containers;
    }
  }
  return describe(logged, engine);
}

}  // namespace berth::core
