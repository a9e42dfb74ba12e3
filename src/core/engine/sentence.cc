#include "core/engine/sentence.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "core/engine/sentence_words.h"

namespace berth::core {

namespace {

std::string any_of(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, " or "));
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

std::string Sentence::text() const {
  const std::string text = full_text();
  const std::string rights = about_rights();
  return shortened(text.size() + rights.size() <= kMost ? text + rights : text, kMost);
}

std::string Sentence::needs() const {
  return ask_ != nullptr ? amount_text(*ask_)
                         : fmt::format("{} CPU cores and {} MiB of memory", cores_text(shape_.cpu),
                                       Memory::bytes(shape_.ram).ceil_mib());
}

// Nothing of it depends on the work; where it could go tells it from work that lacks room as well.
std::string Sentence::granting_held() const {
  std::int64_t open = verdict_.nodes.total;
  for (const std::int64_t refusing : verdict_.nodes.by_reason) {
    open -= refusing;
  }
  return fmt::format(
      "the service makes no grants at the moment: it is starting, or cannot write its books; "
      "needs {}; nodes with room for it now: {} of {}",
      needs(), open, verdict_.nodes.total);
}

std::string Sentence::full_text() const {
  if (verdict_.cause == Cause::granting_held) {
    return granting_held();
  }
  for (const auto phrase : {&Sentence::about_queues, &Sentence::about_gangs}) {
    std::string text = (this->*phrase)();
    if (!text.empty()) {
      return text;
    }
  }
  switch (verdict_.cause) {
    case Cause::insufficient_node_resource:
    case Cause::exceeds_fleet: return insufficient_node_resource();
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

// "H100", "model with A100 in its name", "model with A100 and without MIG in its name".
std::string Sentence::wanted_models() const {
  if (ask_ == nullptr) {
    return "such model";
  }
  const DeviceFilter& filter = ask_->filter;
  std::string parts;
  const auto add = [&](std::string_view how, const std::vector<std::string>& names) {
    if (!names.empty()) {
      parts += fmt::format("{} {} {}", parts.empty() ? "" : " and", how, named(any_of(names)));
    }
  };
  add("with", filter.use_types);
  add("without", filter.avoid_types);
  const std::string models = filter.models.empty() ? "model" : named(any_of(filter.models));
  return parts.empty() ? models : models + parts + " in its name";
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
      return fmt::format("{} no {} ({})", has, wanted_models(), example("is another model"));
    case Cause::uuid_mismatch:
      if (ask_ != nullptr && ask_->filter.use_uuids.empty()) {
        return fmt::format("{} only devices that it must not use: {} ({})", has,
                           named(any_of(ask_->filter.avoid_uuids)), their_names());
      }
      return fmt::format("{} none of the devices that it may use: {} ({})", has,
                         named(ask_ == nullptr ? "" : any_of(ask_->filter.use_uuids)),
                         their_names());
    case Cause::replicas_unknown:
      return fmt::format("{} not say into how many parts a GPU is divided, at least 2 ({})",
                         those("does", "do"), their_names());
    case Cause::device_not_owned:
      return fmt::format("{} only devices that others hand out too ({})", has,
                         example("is not owned"));
    case Cause::sharing_not_ready:
      return fmt::format("{} not ready to enforce shares ({})", those("is", "are"), their_names());
    case Cause::backend_cannot_enforce:
      if (ask_ != nullptr && ask_->long_name) {
        return fmt::format("{} shares by container names of at most {} characters ({})",
                           those("enforces", "enforce"), kLongestKeyName, their_names());
      }
      return fmt::format("{} no MPS daemon for sm-sharing ({})", has, example("has none"));
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
  const std::string cores = fmt::format("{} CPU cores", cores_text(shape_.cpu));
  const std::string memory = fmt::format("{} MiB of memory", Memory::bytes(shape_.ram).ceil_mib());
  const std::string asked = fmt::format("needs {}{}{} on one node", shape_.cpu > 0 ? cores : "",
                                        shape_.cpu > 0 && shape_.ram > 0 ? " and " : "",
                                        shape_.ram > 0 || shape_.cpu <= 0 ? memory : "");
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
                          time_text(std::max(reservation.plan.at - engine_.now, Duration(0))),
                          time_text(*entry_.options.max_run));
    }
    return text;
  }
  return fmt::format("the free room is kept for others before it on {} ({})",
                     plural(std::ssize(saying_), "node"), their_names());
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
        const DeviceNeed need =
            need_on(ask, device.usable_mib(), is.gpu_replicas, shape_.terms.device_cap);
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
