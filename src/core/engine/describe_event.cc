#include <iterator>

#include <fmt/format.h>

#include "base/printable.h"
#include "core/engine/describe.h"

namespace berth::core {

namespace {

std::string seconds(Time time) {
  const std::int64_t ms = time.ms();
  const std::int64_t whole = ms / 1000;
  const std::int64_t rest = ms % 1000;
  return fmt::format("{}{}.{:03} s", ms < 0 && whole == 0 ? "-" : "", whole,
                     rest < 0 ? -rest : rest);
}

std::string seconds(Duration duration) { return seconds(Time(duration.count())); }

// Bytes as MiB where they are whole MiB.
std::string size(Memory memory) {
  return memory.in_bytes() % Memory::kBytesPerMib == 0 ? fmt::format("{} MiB", memory.floor_mib())
                                                       : fmt::format("{} bytes", memory.in_bytes());
}

std::string amount(const DeviceAsk& ask) {
  switch (ask.kind) {
    case AskKind::none: return "no GPU";
    case AskKind::memory: return fmt::format("{} MiB", ask.mib);
    case AskKind::fraction: return fmt::format("{}e-9 of a device", ask.nano);
    case AskKind::replica: return "one replica";
    case AskKind::whole: return "whole";
    case AskKind::mig: return "MIG " + ask.mig_profile;
  }
  return "?";
}

std::string ask_text(const DeviceAsk& ask) {
  std::string text;
  auto out = std::back_inserter(text);
  if (ask.wants_gpu() && ask.count != 1) {
    fmt::format_to(out, "{} x ", ask.count);
  }
  text += amount(ask);
  if (ask.limit_mib.has_value()) {
    fmt::format_to(out, ", limit {} MiB", *ask.limit_mib);
  }
  if (ask.limit_nano.has_value()) {
    fmt::format_to(out, ", limit {}e-9", *ask.limit_nano);
  }
  if (ask.mode == SharingMode::sm_sharing) {
    text += ", sm-sharing";
  }
  if (ask.compute_milli > 0) {
    fmt::format_to(out, ", compute {}m", ask.compute_milli);
  }
  text += ask.mutex ? ", mutex" : "";
  text += ask.numa_bind ? ", one NUMA node" : "";
  text += ask.links == LinkRule::required    ? ", one link set"
          : ask.links == LinkRule::preferred ? ", linked if possible"
                                             : "";
  text += ask.filter.empty() ? "" : ", some devices only";
  return text;
}

std::string_view kind_prefix(ContainerKind kind) {
  constexpr std::string_view kPrefix[] = {"", "init ", "sidecar "};
  return kPrefix[static_cast<std::size_t>(kind)];
}

struct EventText {
  std::string operator()(const NodeUpserted& e) const {
    const Node& node = e.node;
    std::string text = fmt::format(
        "node {}: {}m cpu, {} ram, {} slots{}{}", node.name, node.cpu.count(), size(node.ram),
        node.pod_slots, node.ready ? "" : ", not ready", node.cordoned ? ", cordoned" : "");
    for (const Device& device : node.devices) {
      fmt::format_to(std::back_inserter(text), "; {} {}: {}{}", device.uuid, device.model,
                     device.total.has_value() ? fmt::format("{} MiB usable", device.usable_mib())
                                              : "size unknown",
                     device.mig_profile.empty() ? "" : ", MIG " + device.mig_profile);
      text += device.health == DeviceHealth::ok ? "" : ", unhealthy";
      text += device.cordoned ? ", cordoned" : "";
    }
    return text;
  }

  std::string operator()(const NodeRemoved& e) const { return "remove node " + e.name; }

  std::string operator()(const DeviceCordoned& e) const {
    return (e.cordoned ? "cordon device " : "uncordon device ") + e.uuid;
  }

  std::string operator()(const DeviceObserved& e) const {
    std::string text = fmt::format("observe {} at {}: {}", e.uuid, seconds(e.sampled_at),
                                   e.used.has_value() ? size(*e.used) + " used" : "use unknown");
    text += e.attributed ? ", by process:" : ", device total only";
    for (const DeviceObserved::Use& use : e.uses) {
      fmt::format_to(std::back_inserter(text), " {} {}", use.uid, size(use.used));
    }
    if (e.health.has_value()) {
      text += *e.health == DeviceHealth::ok ? ", healthy" : ", unhealthy";
    }
    if (e.restated) {
      text += ", instead of what was said before";
    }
    return text;
  }

  std::string operator()(const WorkloadSubmitted& e) const { return "submit " + with(e.workload); }

  std::string operator()(const WorkloadCancelled& e) const { return "cancel " + e.uid; }

  std::string operator()(const GrantConfirmed& e) const { return "confirm " + e.uid; }

  std::string operator()(const GrantReleasing& e) const { return "releasing " + e.uid; }

  std::string operator()(const GrantReleased& e) const { return "release " + e.uid; }

  std::string operator()(const GrantLost& e) const {
    return fmt::format("lost {} ({}){}", e.uid, e.why, e.requeue ? ", queue again" : "");
  }

  std::string operator()(const WorkloadInitialized& e) const { return "initialized " + e.uid; }

  std::string operator()(const GrantAdopted& e) const {
    std::string text = fmt::format("adopt {} on {}{}", with(e.workload), e.node,
                                   e.confirmed ? "" : ", unconfirmed");
    for (const GrantAdopted::Share& share : e.shares) {
      fmt::format_to(std::back_inserter(text), "; container {} {} {} MiB, limit {} MiB",
                     share.container, share.uuid, share.request_mib, share.limit_mib);
    }
    return text;
  }

  std::string operator()(const PolicyChanged& e) const {
    return fmt::format("policy {} (seed {})", e.spec, e.seed);
  }

  std::string operator()(const HistoryChanged& e) const {
    return fmt::format("history of {} classes", e.classes.size());
  }

  std::string operator()(const QueuesChanged& e) const {
    return fmt::format("{} queues", e.config.queues.size());
  }

  std::string operator()(const TopologiesChanged& e) const {
    return fmt::format("topologies changed count={}", e.topologies.size());
  }
  std::string operator()(const MembersJoined& e) const {
    return fmt::format("{} x {} join {}{}: {}", e.members.count, e.members.name, e.uid,
                       e.group.empty() ? "" : ", group " + e.group, describe(e.members.request));
  }

  std::string operator()(const TimeReached&) const { return "time passes"; }

  std::string operator()(const GrantingHeld& e) const {
    return e.held ? "granting is held" : "granting goes on";
  }

 private:
  static std::string with(const Workload& workload) {
    const WorkloadOptions& options = workload.options();
    std::string notes;
    const auto note = [&notes](std::string_view name, const std::string& value) {
      fmt::format_to(std::back_inserter(notes), "{}{} {}", notes.empty() ? " (" : ", ", name,
                     value);
    };
    if (options.priority != 0) {
      note("priority", std::to_string(options.priority));
    }
    if (options.max_run.has_value()) {
      note("runs", seconds(*options.max_run));
    }
    if (options.queued_at.has_value()) {
      note("queued at", seconds(*options.queued_at));
    }
    if (options.wait_timeout.has_value()) {
      note("waits", seconds(*options.wait_timeout));
    }
    if (options.confirm_within.has_value()) {
      note("confirms within", seconds(*options.confirm_within));
    }
    if (options.foreign) {
      note("foreign", "yes");
    }
    if (options.preemptible) {
      note("preemptible", "yes");
    }
    if (options.policy.has_value()) {
      note("policy", *options.policy);
    }
    if (options.queue != "default") {
      note("queue", options.queue);
    }
    return fmt::format("{}{}: {}", workload.uid(), notes.empty() ? "" : notes + ")",
                       workload.gang() != nullptr ? group_text(workload.gang()->root)
                                                  : describe(workload.request()));
  }

  static std::string group_text(const Group& group) {
    std::string text = group.name.empty() ? "gang" : "group " + group.name;
    if (group.is_leaf()) {
      fmt::format_to(std::back_inserter(text), ", at least {} of {}", group.minimum(),
                     group.declared());
    }
    for (const MemberSet& set : group.members) {
      fmt::format_to(std::back_inserter(text), "; {} x {}: {}", set.count, set.name,
                     describe(set.request));
    }
    for (const Group& inner : group.groups) {
      text += " [" + group_text(inner) + "]";
    }
    return text;
  }
};

}  // namespace

std::string describe(const Request& request) {
  std::string text;
  const auto part = [&text](const std::string& words) {
    text += text.empty() ? "" : ", ";
    text += words;
  };
  if (request.cpu() != Milli()) {
    part(fmt::format("{}m cpu", request.cpu().count()));
  }
  if (request.ram() != Memory()) {
    part(size(request.ram()) + " ram");
  }
  if (!request.nodes().empty()) {
    part("some nodes only");
  }
  for (const ContainerAsk& container : request.containers()) {
    text += text.empty() ? "" : "; ";
    fmt::format_to(std::back_inserter(text), "{}{}: {}", kind_prefix(container.kind),
                   container.name, ask_text(container.gpu));
  }
  return text.empty() ? "nothing" : printable(text);
}

std::string describe(const Event& event) {
  return printable(seconds(event.time) + ": " + std::visit(EventText{}, event.body));
}

}  // namespace berth::core
