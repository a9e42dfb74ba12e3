#include "core/engine/sentence.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "base/printable.h"

namespace berth::core {

namespace {

std::string named(std::string_view text, std::size_t most = 48) {
  return shortened(printable(text), most);
}

std::int64_t mib(std::int64_t bytes) { return Memory::bytes(bytes).floor_mib(); }

std::string amount_text(const DeviceAsk& ask) {
  const std::string many =
      ask.count == 1 ? " of one GPU" : fmt::format(" of each of {} GPUs", ask.count);
  switch (ask.kind) {
    case AskKind::none: return "nothing";
    case AskKind::memory:
      return ask.count == 1 ? fmt::format("{} MiB on one GPU", ask.mib)
                            : fmt::format("{} MiB on each of {} GPUs", ask.mib, ask.count);
    case AskKind::fraction:
      return fmt::format("{}.{:03} %{}", ask.nano / 10'000'000, ask.nano / 10'000 % 1000, many);
    case AskKind::replica: return "one replica part of a GPU";
    case AskKind::whole:
      return ask.count == 1 ? std::string("one whole GPU")
                            : fmt::format("{} whole GPUs of one node", ask.count);
    case AskKind::mig:
      return fmt::format("{} MIG instance{} {}", ask.count, ask.count == 1 ? "" : "s",
                         named(ask.mig_profile, 24));
  }
  return "";
}

std::string cores_text(std::int64_t milli) {
  return milli % 1000 == 0 ? fmt::format("{}", milli / 1000)
                           : fmt::format("{}.{:03}", milli / 1000, milli % 1000);
}

std::string seconds_text(Duration duration) {
  return duration.count() % 1000 == 0 ? fmt::format("{} s", duration.count() / 1000)
                                      : fmt::format("{} ms", duration.count());
}

std::string plural(std::int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string_view mode_name(SharingMode mode) {
  return mode == SharingMode::sm_sharing ? "sm-sharing" : "time-slicing";
}

std::string label_text(const LabelRule& rule) {
  std::string values;
  for (const std::string& value : rule.values) {
    values += (values.empty() ? "" : ", ") + value;
  }
  switch (rule.op) {
    case LabelRule::Op::in:
      return rule.values.size() == 1 ? fmt::format("{}={}", rule.key, values)
                                     : fmt::format("{} in ({})", rule.key, values);
    case LabelRule::Op::not_in: return fmt::format("{} not in ({})", rule.key, values);
    case LabelRule::Op::exists: return rule.key;
    case LabelRule::Op::does_not_exist: return "!" + rule.key;
    case LabelRule::Op::greater: return fmt::format("{} > {}", rule.key, values);
    case LabelRule::Op::less: return fmt::format("{} < {}", rule.key, values);
  }
  return rule.key;
}

}  // namespace

const DeviceAsk* largest_ask(const Shape& shape) {
  const DeviceAsk* largest = nullptr;
  const auto size = [](const DeviceAsk& ask) {
    return ask.is_exclusive() ? std::int64_t{1} << 50 : std::max(ask.mib, ask.nano);
  };
  for (std::size_t i = 0; i < shape.gpu_containers.size(); ++i) {
    if (largest == nullptr || size(shape.ask(i)) > size(*largest)) {
      largest = &shape.ask(i);
    }
  }
  return largest;
}

Sentence::Sentence(const Engine::Impl& engine, const Entry& entry, const Verdict& verdict)
    : engine_(engine),
      entry_(entry),
      verdict_(verdict),
      shape_(engine.shapes.at(entry.shape)),
      ask_(largest_ask(shape_)) {
  // What the whole fleet lacks, each node lacks.
  const Cause said =
      verdict.cause == Cause::exceeds_fleet ? Cause::insufficient_node_resource : verdict.cause;
  for (std::size_t i = 0; i < engine.fleet.node_slots(); ++i) {
    const NodeId node(i);
    if (engine.fleet.present(node) && engine.answer_of(entry, node) == said) {
      saying_.push_back(node);
    }
  }
  std::ranges::sort(saying_, {}, [&](NodeId node) { return engine.fleet.node(node).name; });
}

std::string Sentence::text() const { return shortened(full_text(), kMost); }

std::string Sentence::needs() const {
  return ask_ != nullptr ? amount_text(*ask_)
                         : fmt::format("{} CPU cores and {} MiB of memory", cores_text(shape_.cpu),
                                       Memory::bytes(shape_.ram).ceil_mib());
}

std::string Sentence::full_text() const {
  switch (verdict_.cause) {
    case Cause::insufficient_node_resource:
    case Cause::exceeds_fleet: return insufficient_node_resource();
    case Cause::unknown_queue:
      return fmt::format("queue {} does not exist; there is 1 queue: default",
                         named(entry_.options.queue));
    default: return fmt::format("needs {}; {}", needs(), because());
  }
}

std::string Sentence::because() const {
  for (const auto phrase : {&Sentence::of_nodes, &Sentence::of_kinds, &Sentence::of_devices,
                            &Sentence::of_the_engine}) {
    std::string text = (this->*phrase)();
    if (!text.empty()) {
      return text;
    }
  }
  return fmt::format("{} {} ({})", those("says", "say"), cause_name(verdict_.cause), their_names());
}

std::string Sentence::of_nodes() const {
  switch (verdict_.cause) {
    case Cause::no_node_matches: return no_node_matches();
    case Cause::untolerated_taint: return untolerated_taint();
    case Cause::node_not_ready:
      return fmt::format("{} not ready ({})", those("is", "are"), their_names());
    case Cause::node_cordoned:
      return fmt::format("{} cordoned ({})", those("is", "are"), their_names());
    case Cause::no_pod_slot:
      return saying_.empty() ? ""
                             : fmt::format("{} no slot left ({} carries {} of {})",
                                           those("has", "have"), name_of(saying_[0]),
                                           engine_.fleet.node(saying_[0]).pod_slots -
                                               engine_.ledger.node(saying_[0]).slots_free,
                                           engine_.fleet.node(saying_[0]).pod_slots);
    case Cause::no_devices:
      return fmt::format("{} no GPU ({})", those("has", "have"), their_names());
    default: return "";
  }
}

// What devices are: nothing that runs matters.
std::string Sentence::of_kinds() const {
  const auto has = those("has", "have");
  switch (verdict_.cause) {
    case Cause::resource_kind_mismatch:
      return fmt::format("{} {} ({})", has,
                         ask_ != nullptr && ask_->kind == AskKind::mig
                             ? "no MIG instance"
                             : "no GPU that is not cut into instances",
                         their_names());
    case Cause::no_such_profile:
      return fmt::format("{} no instance of that profile ({})", has, example("is another one"));
    case Cause::type_mismatch:
      return fmt::format("{} no {} ({})", has, named(engine_.pool_names_[entry_.pool.index()]),
                         example("is another model"));
    case Cause::uuid_mismatch:
      return fmt::format("{} none of the devices that it may use: {} ({})", has,
                         named(engine_.pool_names_[entry_.pool.index()]), their_names());
    case Cause::replicas_unknown:
      return fmt::format("{} not say into how many parts a GPU is divided, at least 2 ({})",
                         those("does", "do"), their_names());
    case Cause::device_not_owned:
      return fmt::format("{} only devices that others hand out too ({})", has,
                         example("is not owned"));
    case Cause::sharing_not_ready:
      return fmt::format("{} not ready to enforce shares ({})", those("is", "are"), their_names());
    case Cause::backend_cannot_enforce:
      return fmt::format("{} no MPS daemon for sm-sharing ({})", has, example("has none"));
    default: return "";
  }
}

// How devices are now, and what is promised on them.
std::string Sentence::of_devices() const {
  const auto no_such = those("has", "have");
  switch (verdict_.cause) {
    case Cause::no_usable_memory:
      return fmt::format("{} no device of known and usable memory ({})", no_such,
                         example("has none"));
    case Cause::device_unhealthy:
      return fmt::format("{} no healthy device left for it ({})", no_such, example("is unhealthy"));
    case Cause::device_cordoned:
      return fmt::format("{} no device open for it ({})", no_such, example("is cordoned"));
    case Cause::stale_observation: return stale_observation();
    case Cause::share_below_minimum:
      return fmt::format("that is less than 1 MiB on {} ({})", plural(std::ssize(saying_), "node"),
                         example("is too small"));
    case Cause::device_exclusive: return device_exclusive();
    case Cause::foreign_use: return foreign_use();
    case Cause::device_cap:
      if (const auto device = nearest([](const Refusal& r) { return -r.face.grants; })) {
        return fmt::format("{} has {} of at most {}", where(device->node, device->id),
                           plural(device->face.grants, "grant"),
                           engine_.config.device_cap.value_or(0));
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
    default: return "";
  }
}

std::string Sentence::of_the_engine() const {
  switch (verdict_.cause) {
    case Cause::none:
      return fmt::format("it is about to be tried in queue {} (attempt {})",
                         named(entry_.options.queue), entry_.attempts + 1);
    case Cause::waiting_for_release: return waiting_for_release();
    case Cause::reserved_for_other:
    case Cause::backfill_too_long: return kept_for_other();
    case Cause::search_budget:
      return fmt::format("the search on {} ended with its budget ({}): not proved impossible",
                         plural(std::ssize(saying_), "node"), their_names());
    case Cause::largest_device_too_small: return too_large_for_all();
    default: return "";
  }
}

std::string Sentence::no_node_matches() const {
  const NodeConstraints& wants = shape_.request.nodes();
  const std::size_t nodes = engine_.fleet.present_nodes();
  if (nodes == 0) {
    return fmt::format("no node has joined yet (0 nodes serve queue {})",
                       named(entry_.options.queue));
  }
  std::string rules;
  for (const std::string& name : wants.names) {
    rules += (rules.empty() ? "named " : " or ") + name;
  }
  for (const LabelRule& rule : wants.labels) {
    rules += (rules.empty() ? "labelled " : ", ") + label_text(rule);
  }
  return fmt::format("{} {}",
                     nodes == 1 ? "the 1 node is not" : fmt::format("none of {} nodes is", nodes),
                     named(rules, 100));
}

std::string Sentence::untolerated_taint() const {
  for (const NodeId node : saying_) {
    const NodeConstraints& wants = shape_.request.nodes();
    for (const Taint& taint : engine_.fleet.node(node).taints) {
      Node one;
      one.taints = {taint};
      if (constraint_refusal({.names = {}, .labels = {}, .tolerations = wants.tolerations}, one) !=
          Cause::none) {
        return fmt::format("{} a taint that it does not tolerate ({}: {})", those("has", "have"),
                           name_of(node),
                           named(fmt::format("{}{}{}:{}", taint.key, taint.value.empty() ? "" : "=",
                                             taint.value, taint.effect)));
      }
    }
  }
  return "";
}

std::string Sentence::insufficient_node_resource() const {
  const bool never = verdict_.outcome == Outcome::never;
  struct Room {
    std::int64_t cpu = 0;
    std::int64_t ram = 0;
    NodeId node;
  };
  std::optional<Room> best;
  const auto order = [&](const Room& room) {
    const bool cpu = shape_.cpu <= room.cpu;
    const bool ram = shape_.ram <= room.ram;
    return std::tuple((cpu ? 1 : 0) + (ram ? 1 : 0), cpu ? room.ram : room.cpu);
  };
  for (const NodeId node : saying_) {
    const Node& is = engine_.fleet.node(node);
    const NodeFace& face = engine_.ledger.node(node);
    const Room room{.cpu = std::max<std::int64_t>(0, never ? is.cpu.count() : face.cpu_free),
                    .ram = std::max<std::int64_t>(0, never ? is.ram.in_bytes() : face.ram_free),
                    .node = node};
    if (!best.has_value() || order(room) > order(*best)) {
      best = room;
    }
  }
  const std::string asked =
      fmt::format("needs {} CPU cores and {} MiB of memory on one node", cores_text(shape_.cpu),
                  Memory::bytes(shape_.ram).ceil_mib());
  if (!best.has_value()) {
    return fmt::format("{}; no node of {} has both", asked, engine_.fleet.present_nodes());
  }
  return shape_.cpu <= best->cpu && shape_.ram <= best->ram
             ? fmt::format("{}; {} carries {}", asked, name_of(best->node),
                           plural(engine_.fleet.node(best->node).pod_slots, "workload"))
             : fmt::format("{}; {} comes nearest with {} cores and {} MiB{}", asked,
                           name_of(best->node), cores_text(best->cpu), mib(best->ram),
                           never ? " in all" : " free");
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
                     seconds_text(engine_.now - book.sampled_at),
                     seconds_text(most.value_or(Duration(0))));
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
      "{} no device that may be shared ({} is held by {}{})", those("has", "have"),
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
    return fmt::format("none of the {} it may use has memory free ({})",
                       devices.scanned == 1 ? "1 device" : plural(devices.scanned, "device"),
                       their_names());
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
  return fmt::format(
      "its limit is {} MiB; limits on {} sum to {} of at most {} MiB", mib(device->need.limit),
      where(device->node, device->id), mib(limits),
      mib(limit_ceiling(device->face.usable, engine_.ledger.rules().limit_overcommit_percent)));
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
  return never ? fmt::format("no node has more than {} ({})", plural(most, "such device"),
                             name_of(best))
               : fmt::format("the best node has {} free ({})", most, name_of(best));
}

std::string Sentence::waiting_for_release() const {
  const NodeId node = entry_.grant->node;
  std::int64_t ending = 0;
  std::string first;
  for (const WorkloadId id : engine_.on_node_[node.index()]) {
    const Entry& other = engine_.entries_[id.index()];
    if (other.grant->state == GrantState::releasing) {
      first = ending == 0 || other.uid < first ? other.uid : first;
      ++ending;
    }
  }
  return ending == 0
             ? fmt::format("it is promised on {}", name_of(node))
             : fmt::format("it is promised on {} as soon as {} there {} gone ({}{})", name_of(node),
                           plural(ending, "workload"), ending == 1 ? "is" : "are",
                           ending == 1 ? "" : "first ", named(first, 32));
}

// The reservation that is in the entry's way.
std::string Sentence::kept_for_other() const {
  for (const auto& [pool, reservation] : engine_.reservations_) {
    if (reservation.node.is_none()) {
      continue;
    }
    const Entry& holder = engine_.entries_[reservation.holder.index()];
    if (holder.uid == entry_.uid ||
        engine_.index.refusal(entry_.shape, reservation.node) != Cause::none) {
      continue;
    }
    std::string text = fmt::format("the room on {} is kept for {}, which is before it",
                                   name_of(reservation.node), named(holder.uid, 32));
    if (verdict_.cause == Cause::backfill_too_long && entry_.options.max_run.has_value()) {
      text += fmt::format(": due in {}, this runs {}",
                          seconds_text(std::max(reservation.plan.at - engine_.now, Duration(0))),
                          seconds_text(*entry_.options.max_run));
    }
    return text;
  }
  return fmt::format("the free room is kept for others before it on {} ({})",
                     plural(std::ssize(saying_), "node"), their_names());
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

std::string Sentence::those(std::string_view one, std::string_view many) const {
  const std::size_t all = engine_.fleet.present_nodes();
  const std::size_t count = saying_.size();
  if (count == all) {
    return all == 1 ? fmt::format("the 1 node {}", one) : fmt::format("all {} nodes {}", all, many);
  }
  return fmt::format("{} of {} nodes {}", count, all, count == 1 ? one : many);
}

std::string Sentence::their_names() const {
  if (saying_.empty()) {
    return "no node";
  }
  std::string text = name_of(saying_[0]);
  if (saying_.size() == 2) {
    text += " and " + name_of(saying_[1]);
  } else if (saying_.size() > 2) {
    text += fmt::format(" and {} more", saying_.size() - 1);
  }
  return text;
}

std::string Sentence::example(std::string_view predicate) const {
  const auto device = nearest([](const Refusal&) { return 0; });
  return device.has_value() ? fmt::format("{} {}", where(device->node, device->id), predicate)
                            : their_names();
}

std::string Sentence::where(NodeId node, DeviceId device) const {
  return fmt::format("{}/{}", named(engine_.fleet.node(node).name, 32),
                     named(engine_.fleet.uuid(device)));
}

std::string Sentence::name_of(NodeId node) const { return named(engine_.fleet.node(node).name); }

std::optional<Sentence::Refusal> Sentence::nearest(const Nearness& nearness) const {
  std::optional<Refusal> best;
  std::int64_t best_key = 0;
  for (const NodeId node : saying_) {
    const Node& is = engine_.fleet.node(node);
    const std::vector<DeviceId>& ids = engine_.fleet.devices_of(node);
    for (std::size_t i = 0; i < shape_.gpu_containers.size(); ++i) {
      const DeviceAsk& ask = shape_.ask(i);
      for (std::size_t place = 0; place < ids.size(); ++place) {
        const Device& device = is.devices[place];
        const DeviceNeed need = need_on(ask, device.usable_mib(), is.gpu_replicas,
                                        static_cast<int>(engine_.config.device_cap.value_or(0)));
        const DeviceFace& face = engine_.ledger.faces(node)[place];
        Cause cause = static_refusal(ask, is, device);
        cause = cause == Cause::none ? device_refusal(need, face) : cause;
        if (cause != verdict_.cause) {
          continue;
        }
        Refusal refusal{.node = node,
                        .id = ids[place],
                        .place = place,
                        .ask = &ask,
                        .need = need,
                        .face = face};
        const std::int64_t key = nearness(refusal);
        if (!best.has_value() || key > best_key) {
          best = refusal;
          best_key = key;
        }
      }
    }
  }
  return best;
}

}  // namespace berth::core
