#include "core/placement/rules.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>

#include "base/wide.h"
#include "core/placement/mig_shares.h"

namespace berth::core {

namespace {

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

bool any_in_model(const std::vector<std::string>& parts, const Device& device) {
  return std::ranges::any_of(
      parts, [&](const std::string& part) { return contains_ignoring_case(device.model, part); });
}

bool listed(const std::vector<std::string>& list, const std::string& text) {
  return std::ranges::find(list, text) != list.end();
}

// How Kubernetes cordons a node: a pod may tolerate that.
constexpr std::string_view kUnschedulableTaint = "node.kubernetes.io/unschedulable";

constexpr std::array<StaticRule, 9> kStaticRules{{
    {Cause::resource_kind_mismatch,
     "GPUs serve shares and whole requests, MIG instances MIG requests, and shares where they may",
     [](const DeviceAsk& ask, const Node& node, const Device& device) {
       if (ask.kind == AskKind::mig || ask.backend == Backend::mig) {
         return device.is_mig();
       }
       return !device.is_mig() ||
              (ask.is_share() && ask.backend == Backend::any && shares_on_instances(node));
     }},
    {Cause::no_such_profile, "a MIG request takes instances of exactly its profile",
     [](const DeviceAsk& ask, const Node&, const Device& device) {
       return ask.kind != AskKind::mig || ask.mig_profile == device.mig_profile;
     }},
    {Cause::type_mismatch, "models asked for or to be avoided",
     [](const DeviceAsk& ask, const Node&, const Device& device) {
       const DeviceFilter& filter = ask.filter;
       return (filter.models.empty() || listed(filter.models, device.model)) &&
              (filter.use_types.empty() || any_in_model(filter.use_types, device)) &&
              !any_in_model(filter.avoid_types, device);
     }},
    {Cause::uuid_mismatch, "devices asked for or to be avoided",
     [](const DeviceAsk& ask, const Node&, const Device& device) {
       const DeviceFilter& filter = ask.filter;
       return (filter.use_uuids.empty() || listed(filter.use_uuids, device.uuid)) &&
              !listed(filter.avoid_uuids, device.uuid);
     }},
    {Cause::replicas_unknown, "a replica part needs the node to say how many parts a device has",
     [](const DeviceAsk& ask, const Node& node, const Device&) {
       return ask.kind != AskKind::replica || node.gpu_replicas >= 2;
     }},
    {Cause::device_not_owned, "a shared device must be out of reach of every other allocator",
     [](const DeviceAsk& ask, const Node&, const Device& device) {
       return !ask.is_share() || device.owned;
     }},
    {Cause::sharing_not_ready, "shares need the node's enforcing backend to be ready",
     [](const DeviceAsk& ask, const Node& node, const Device&) {
       return !ask.is_share() || node.sharing_ready;
     }},
    {Cause::backend_cannot_enforce, "a share's container has a name that the node's backend takes",
     [](const DeviceAsk& ask, const Node& node, const Device&) {
       return !ask.long_name || !node.sizes_by_name;
     }},
    {Cause::backend_cannot_enforce, "sm-sharing needs a device whose daemon serves it",
     [](const DeviceAsk& ask, const Node&, const Device& device) {
       return !ask.is_share() || ask.mode != SharingMode::sm_sharing || device.sm_sharing;
     }},
}};

bool label_passes(const LabelRule& rule, const Node& node) {
  const auto found = node.labels.find(rule.key);
  const bool exists = found != node.labels.end();
  const auto number = [](const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                    : std::nullopt;
  };
  switch (rule.op) {
    case LabelRule::Op::in: return exists && listed(rule.values, found->second);
    case LabelRule::Op::not_in: return !exists || !listed(rule.values, found->second);
    case LabelRule::Op::exists: return exists;
    case LabelRule::Op::does_not_exist: return !exists;
    case LabelRule::Op::greater:
    case LabelRule::Op::less: {
      if (!exists || rule.values.size() != 1) {
        return false;
      }
      const auto have = number(found->second);
      const auto want = number(rule.values.front());
      if (!have.has_value() || !want.has_value()) {
        return false;
      }
      return rule.op == LabelRule::Op::greater ? *have > *want : *have < *want;
    }
  }
  return false;
}

bool tolerated(const Taint& taint, const std::vector<Toleration>& tolerations) {
  if (taint.effect == "PreferNoSchedule") {
    return true;
  }
  return std::ranges::any_of(tolerations, [&](const Toleration& t) {
    return (t.key.empty() ? t.exists : t.key == taint.key) &&
           (t.effect.empty() || t.effect == taint.effect) && (t.exists || t.value == taint.value);
  });
}

}  // namespace

std::span<const StaticRule> static_rules() { return kStaticRules; }

Cause static_refusal(const DeviceAsk& ask, const Node& node, const Device& device) {
  for (const StaticRule& rule : kStaticRules) {
    if (!rule.passes(ask, node, device)) {
      return rule.cause;
    }
  }
  return Cause::none;
}

DeviceNeed need_on(const DeviceAsk& ask, std::int64_t usable_mib, int gpu_replicas,
                   int device_cap) {
  DeviceNeed need;
  const std::int64_t request_mib = request_mib_on(ask, usable_mib, gpu_replicas);
  need.request = Memory::mib(request_mib).in_bytes();
  need.limit = Memory::mib(limit_mib_on(ask, usable_mib, gpu_replicas)).in_bytes();
  need.nano = ask.kind == AskKind::fraction ? static_cast<std::int32_t>(ask.nano) : 0;
  need.mode = ask.mode;
  need.exclusive = ask.is_exclusive();
  need.mutex = ask.mutex;
  need.cap = static_cast<std::int16_t>(device_cap);
  if (ask.compute_milli > 0) {
    need.compute = static_cast<std::int16_t>(ask.compute_milli);
  } else if (ask.mode == SharingMode::sm_sharing && usable_mib > 0) {
    const std::int64_t share = 1000 * std::min(request_mib, usable_mib) / usable_mib;
    need.compute = static_cast<std::int16_t>(std::max<std::int64_t>(1, share));
  }
  if (ask.kind == AskKind::fraction) {
    need.milli = static_cast<std::int16_t>((ask.nano + 999'999) / 1'000'000);
  } else if (need.exclusive || request_mib >= usable_mib) {
    need.milli = 1000;
  } else {
    need.milli = static_cast<std::int16_t>(
        (static_cast<Int128>(1000) * request_mib + usable_mib - 1) / usable_mib);
  }
  return need;
}

Cause more_advanced(Cause a, Cause b) { return static_cast<int>(a) >= static_cast<int>(b) ? a : b; }

Cause constraint_refusal(const NodeConstraints& constraints, const Node& node) {
  if (!constraints.names.empty() && !listed(constraints.names, node.name)) {
    return Cause::no_node_matches;
  }
  for (const LabelRule& rule : constraints.labels) {
    if (!label_passes(rule, node)) {
      return Cause::no_node_matches;
    }
  }
  for (const Taint& taint : node.taints) {
    if (!tolerated(taint, constraints.tolerations)) {
      return taint.key == kUnschedulableTaint ? Cause::node_cordoned : Cause::untolerated_taint;
    }
  }
  return Cause::none;
}

}  // namespace berth::core
