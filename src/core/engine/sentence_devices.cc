// What sentences say of devices: how they are, and what is promised on them.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "core/engine/sentence.h"
#include "core/engine/sentence_words.h"

namespace berth::core {

// How devices are now, and what is promised on them.
std::string Sentence::of_devices() const {
  const auto no_such = those("has", "have");
  switch (verdict_.cause) {
    case Cause::no_usable_memory:
      return fmt::format("{} no device of known and usable memory ({})", no_such,
                         example("has none"));
    case Cause::device_unhealthy: return devices_that_are("unhealthy");
    case Cause::device_cordoned: return devices_that_are("drained");
    case Cause::device_held_by_peer:
      return fmt::format("{} no device left for it ({})", no_such,
                         example("is held by another scheduler"));
    case Cause::stale_observation: return stale_observation();
    case Cause::share_below_minimum:
      return fmt::format("that is less than 1 MiB on {} ({})", plural(std::ssize(saying_), "node"),
                         example("is too small"));
    case Cause::device_exclusive: return device_exclusive();
    case Cause::foreign_use: return foreign_use();
    case Cause::device_cap:
      if (const auto device = nearest([](const Refusal& r) { return -r.face.grants; })) {
        return fmt::format("{} has {} of at most {}{}", where(device->node, device->id),
                           plural(device->face.grants, "grant"), shape_.terms.device_cap,
                           whose_cap());
      }
      return "";
    case Cause::compute_mode_conflict:
      if (const auto device = nearest([](const Refusal& r) { return r.face.headroom; })) {
        return device->face.mode == device->need.mode
                   ? fmt::format("{} takes no more: {} there start alone or differ in mode",
                                 where(device->node, device->id),
                                 plural(device->face.grants, "grant"))
                   : fmt::format("{} is shared in mode {} by {}, and this asks for {}",
                                 where(device->node, device->id), mode_name(device->face.mode),
                                 plural(device->face.grants, "workload"),
                                 mode_name(device->need.mode));
      }
      return "";
    case Cause::insufficient_compute: return insufficient_compute();
    case Cause::insufficient_memory: return insufficient_memory();
    case Cause::limit_overcommit: return limit_overcommit();
    case Cause::insufficient_devices: return insufficient_devices();
    case Cause::numa_unfit:
      return fmt::format("{} not {} such devices on one NUMA node ({})", no_such,
                         ask_ == nullptr ? 0 : ask_->count, their_names());
    case Cause::no_link_set:
      return fmt::format("{} not {} such devices in one link set ({})", no_such,
                         ask_ == nullptr ? 0 : ask_->count, their_names());
    default: return "";
  }
}

std::string Sentence::stale_observation() const {
  const auto device = nearest([&](const Refusal& r) {
    return engine_.ledger.book(r.id).observed ? engine_.ledger.book(r.id).sampled_at.ms()
                                              : std::numeric_limits<std::int64_t>::min();
  });
  if (!device.has_value()) {
    return "";
  }
  const DeviceBook& book = engine_.ledger.book(device->id);
  const std::string device_name = where(device->node, device->id);
  const auto most = engine_.ledger.rules().max_sample_age;
  if (!book.observed) {
    return fmt::format("{} no fresh sample; {} was not observed{}", those("has", "have"),
                       device_name, book.must_observe ? " since it came back" : " yet");
  }
  return fmt::format("the last sample of {} is {} old; at most {} are allowed", device_name,
                     time_text(engine_.now - book.sampled_at),
                     time_text(most.value_or(Duration(0))));
}

// The queue that allows no more, where the engine would.
std::string Sentence::whose_cap() const {
  const std::int64_t cap = shape_.terms.device_cap;
  if (engine_.config.device_cap == cap || !engine_.quotas.counting()) {
    return "";
  }
  const QueueTree& tree = engine_.quotas.tree;
  for (QueueId queue = entry_.leaf; !queue.is_none(); queue = tree.parent(queue)) {
    if (tree.spec(queue).device_cap == cap) {
      return fmt::format(" (deviceCap of queue {})", named(tree.name(queue), 40));
    }
  }
  return "";
}

std::string Sentence::device_exclusive() const {
  if (ask_ == nullptr || ask_->is_exclusive()) {
    return insufficient_devices();
  }
  const auto device = nearest([](const Refusal&) { return 0; });
  if (!device.has_value()) {
    return fmt::format("{} not this many containers on devices of their own ({})",
                       those("holds", "hold"), their_names());
  }
  const std::vector<Holding>& holdings = engine_.ledger.book(device->id).holdings;
  const std::string holder =
      holdings.empty() ? "" : named(engine_.entries_[holdings[0].workload.index()].uid, 32);
  return fmt::format(
      "{} no GPU that may be shared ({} is held by {}{})", those("has", "have"),
      where(device->node, device->id),
      holdings.size() > 1 ? plural(std::ssize(holdings), "workload") + " such as " : "", holder);
}

std::string Sentence::foreign_use() const {
  const auto device = nearest([&](const Refusal& r) { return -engine_.ledger.book(r.id).foreign; });
  if (!device.has_value()) {
    return "";
  }
  const DeviceBook& book = engine_.ledger.book(device->id);
  const Device& is = engine_.fleet.device(device->id);
  std::string who;
  const auto known = engine_.strangers_.find(device->id);
  if (!book.attributed) {
    who = "the source does not attribute them";
  } else if (known == engine_.strangers_.end()) {
    who = "the source names no process";
  } else {
    const std::vector<Stranger>& all = known->second;
    who = fmt::format("{} uses {}", named(all[0].name, 40), mib(all[0].bytes));
    if (all.size() > 1) {
      who += fmt::format(", {} uses {}", named(all[1].name, 24), mib(all[1].bytes));
    }
    if (all.size() > 2) {
      who += fmt::format(", {} more", all.size() - 2);
    }
  }
  return fmt::format("{} has {} MiB of foreign use, {} allowed: {}",
                     where(device->node, device->id), mib(book.foreign),
                     mib(whole_foreign_ceiling(engine_.ledger.rules(), is)), who);
}

std::string Sentence::insufficient_compute() const {
  const auto device = nearest([](const Refusal& r) { return r.face.compute_left; });
  if (!device.has_value()) {
    return "";
  }
  return device->need.compute >= 1000
             ? fmt::format("all 1000 thousandths of compute want an empty device; {} has {}",
                           where(device->node, device->id), plural(device->face.grants, "grant"))
             : fmt::format("of compute it takes {} thousandths; the most left is {} ({})",
                           device->need.compute, device->face.compute_left,
                           where(device->node, device->id));
}

std::string Sentence::insufficient_memory() const {
  if (!verdict_.devices.has_value() || verdict_.devices->scanned == 0) {
    return fmt::format("{} none of it free ({})", those("has", "have"), their_names());
  }
  const Verdict::Devices& devices = *verdict_.devices;
  if (devices.largest_free_mib == 0) {
    return devices.scanned == 1
               ? fmt::format("the only GPU that it may use has no memory free ({})", their_names())
               : fmt::format("none of the {} GPUs that it may use has memory free ({})",
                             devices.scanned, their_names());
  }
  const std::string largest =
      fmt::format("{} MiB ({}/{})", devices.largest_free_mib, named(devices.largest_free_node),
                  named(devices.largest_free_uuid));
  if (devices.largest_free_mib < devices.need_mib) {
    return "largest free is " + largest;
  }
  return shape_.simple
             ? fmt::format("where memory is free no fraction is left; largest free is {}", largest)
             : fmt::format("no node has room for all of its {}; largest free is {}",
                           plural(std::ssize(shape_.gpu_containers), "container"), largest);
}

std::string Sentence::limit_overcommit() const {
  const auto device = nearest([](const Refusal& r) { return r.face.limit_room; });
  if (!device.has_value()) {
    return "";
  }
  const std::int64_t limits = engine_.ledger.book(device->id).limits;
  const std::string text = fmt::format(
      "its limit is {} MiB; limits on {} sum to {} of at most {} MiB", mib(device->need.limit),
      where(device->node, device->id), mib(limits),
      mib(limit_ceiling(device->face.usable, engine_.ledger.rules().limit_overcommit_percent)));
  return device->face.limit_room < device->need.request
             ? text
             : fmt::format("{}, where one of {} MiB would fit", text, mib(device->face.limit_room));
}

std::string Sentence::insufficient_devices() const {
  const bool never = verdict_.outcome == Outcome::never;
  std::int64_t most = -1;
  NodeId best;
  for (const NodeId node : saying_) {
    const std::int64_t count = ask_ == nullptr ? 0
                               : never         ? engine_.usable_devices(*ask_, node)
                                               : engine_.free_devices(*ask_, node);
    if (count > most) {
      std::tie(most, best) = std::pair(count, node);
    }
  }
  if (best.is_none()) {
    return "";
  }
  if (never && ask_ != nullptr && most >= ask_->count) {  // one by one, but not all together
    return fmt::format("no node has devices enough for its {} ({} has {})",
                       plural(std::ssize(shape_.gpu_containers), "container"), name_of(best), most);
  }
  if (never) {
    return fmt::format("no node has more than {} ({})", plural(most, "such device"), name_of(best));
  }
  const std::string rest = tally(best);
  return engine_.fleet.present_nodes() == 1
             ? fmt::format("{} has {} free{}{}{}", name_of(best), plural(most, "such GPU"),
                           rest.empty() ? "" : ", ", rest, work_that_stays())
             : fmt::format("the best node has {} free ({}{}{}){}", most, name_of(best),
                           rest.empty() ? "" : ": ", rest, work_that_stays());
}

namespace {

// As in "2 drained", "1 too full".
std::string_view state_word(Cause cause) {
  switch (cause) {
    case Cause::device_unhealthy: return "unhealthy";
    case Cause::device_cordoned: return "drained";
    case Cause::device_held_by_peer: return "held by another scheduler";
    case Cause::stale_observation: return "without a fresh sample";
    case Cause::no_usable_memory: return "of unknown memory";
    case Cause::device_exclusive: return "in use";
    case Cause::foreign_use: return "with foreign use";
    case Cause::device_cap: return "with as many grants as may be";
    case Cause::compute_mode_conflict: return "shared in another mode";
    case Cause::insufficient_compute: return "without the compute";
    case Cause::insufficient_memory: return "too full";
    case Cause::limit_overcommit: return "with too many limits";
    default: return "not open";
  }
}

}  // namespace

std::string Sentence::tally(NodeId node) const {
  if (ask_ == nullptr) {
    return "";
  }
  const Node& is = engine_.fleet.node(node);
  std::map<Cause, int> counts;
  for (std::size_t place = 0; place < is.devices.size(); ++place) {
    const Device& device = is.devices[place];
    if (static_refusal(*ask_, is, device) != Cause::none) {
      continue;
    }
    const DeviceNeed need =
        need_on(*ask_, device.usable_mib(), is.gpu_replicas, shape_.terms.device_cap);
    const Cause cause = device_refusal(need, engine_.ledger.faces(node)[place]);
    counts[cause] += cause == Cause::none ? 0 : 1;
  }
  std::string text;
  for (const auto& [cause, count] : counts) {
    if (count > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, state_word(cause));
    }
  }
  return text;
}

std::string Sentence::devices_that_are(std::string_view what) const {
  std::vector<std::string> such;
  std::size_t all = 0;
  for (const NodeId node : saying_) {
    const Node& is = engine_.fleet.node(node);
    const std::vector<DeviceId>& ids = engine_.fleet.devices_of(node);
    for (std::size_t place = 0; place < ids.size(); ++place) {
      if (ask_ == nullptr || static_refusal(*ask_, is, is.devices[place]) != Cause::none) {
        continue;
      }
      ++all;
      if (engine_.ledger.faces(node)[place].blocked == verdict_.cause) {
        such.push_back(where(node, ids[place]));
      }
    }
  }
  if (such.empty()) {
    return fmt::format("{} no GPU that is not {} ({})", those("has", "have"), what, their_names());
  }
  std::string names = such.front();
  if (such.size() == 2) {
    names += " and " + such.back();
  } else if (such.size() > 2) {
    names += fmt::format(" and {} more", such.size() - 1);
  }
  if (all == 1) {
    return fmt::format("the only GPU that it may use is {} ({})", what, names);
  }
  return such.size() == all
             ? fmt::format("{} GPUs that it may use are {} ({})",
                           all == 2 ? std::string("both") : fmt::format("all {}", all), what, names)
             : fmt::format("of {} GPUs that it may use {} {} {} ({}), and no other takes it", all,
                           such.size(), such.size() == 1 ? "is" : "are", what, names);
}

// Who stands on the nodes that would do and may not be asked to leave: a wait for several whole
// devices of one node is a wait for these.
std::string Sentence::work_that_stays() const {
  if (!engine_.quotas.active() || ask_ == nullptr || !ask_->is_exclusive() || ask_->count < 2) {
    return "";
  }
  std::map<std::string, std::int64_t> nodes_of;  // by queue
  std::int64_t nodes = 0;
  for (const NodeId node : saying_) {
    std::set<std::string> here;
    for (const WorkloadId id : engine_.on_node_.size() > node.index()
                                   ? std::span(engine_.on_node_[node.index()])
                                   : std::span<const WorkloadId>()) {
      const Entry& holder = engine_.entry(id);
      if (!holder.preemptible && !holder.grant->charges.empty()) {
        here.insert(engine_.quotas.tree.name(holder.leaf));
      }
    }
    nodes += here.empty() ? 0 : 1;
    for (const std::string& queue : here) {
      ++nodes_of[queue];
    }
  }
  if (nodes == 0) {
    return "";
  }
  const auto most =
      std::ranges::max_element(nodes_of, {}, [](const auto& one) { return one.second; });
  return fmt::format(
      "; work that is not preemptible stands on {} of {} such nodes, queue {}'s on {}", nodes,
      saying_.size(), named(most->first, 32), most->second);
}

std::string Sentence::too_large_for_all() const {
  const Device* largest = nullptr;
  NodeId home;
  for (const NodeId node : saying_) {
    for (const Device& device : engine_.fleet.node(node).devices) {
      if (ask_ != nullptr &&
          static_refusal(*ask_, engine_.fleet.node(node), device) == Cause::none &&
          (largest == nullptr || device.usable_mib() > largest->usable_mib())) {
        largest = &device;
        home = node;
      }
    }
  }
  if (largest == nullptr) {
    return "";
  }
  const std::string device = fmt::format("{} MiB when empty ({}/{})", largest->usable_mib(),
                                         name_of(home), named(largest->uuid));
  return shape_.simple
             ? fmt::format("the largest device it may use holds {}", device)
             : fmt::format("with its {} no node ever holds it; the largest device holds {}",
                           plural(std::ssize(shape_.gpu_containers), "container"), device);
}

}  // namespace berth::core
