// Queues of Kueue: ClusterQueues become leaves, Cohorts inner queues, flavors device classes.
//
// Per cell (device class): deserved = nominal, reserved = max(0, nominal - lendingLimit), limit =
// nominal + borrowingLimit. A cohort deserves what it and all below it have; where a lendingLimit
// keeps some of it, that and what its children keep is reserved. The topmost queue of each tree
// cannot borrow: its limit is what it has. A cell that a ClusterQueue does not list may not be
// used.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "config/import_parts.h"
#include "request/reason.h"

namespace berth::config {

namespace {

constexpr std::string_view kGpu = "nvidia.com/gpu";
constexpr std::string_view kProductLabel = "nvidia.com/gpu.product";

struct Cell {
  std::int64_t nominal = 0;
  std::optional<std::int64_t> borrowing;  // empty: without limit
  std::optional<std::int64_t> lending;    // empty: all of it
};

// A ClusterQueue or a Cohort.
struct Member {
  std::string name{};    // in Kueue
  std::string queue{};   // in the queue file
  std::string parent{};  // name of a cohort; empty: none
  bool is_cohort = false;
  std::map<std::string, Cell> cells{};  // by device class
  QueuePart part{};
};

// What a node of the tree amounts to in one class.
struct Sums {
  bool any = false;           // a cell here or below
  std::int64_t total = 0;     // nominal of all below and its own
  std::int64_t lendable = 0;  // of Kueue's algebra: S, the subtree's quota
  std::int64_t kept = 0;      // what it and those below keep for themselves
  std::int64_t own_kept = 0;  // L
};

std::vector<NoEqual> cluster_queue_reasons() {
  return with_common_reasons({
      {"spec.namespaceSelector", "who may submit to a queue is no matter of the quota tree", false},
      {"spec.flavorFungibility",
       "every device class that a request allows is looked at in one decision", false},
      {"spec.admissionChecks", "no outside check is asked before work starts", false},
      {"spec.admissionChecksStrategy", "no outside check is asked before work starts", false},
      {"spec.admissionScope", "use over time counts by the queue's `history`", false},
      {"spec.preemption.borrowWithinCohort", "a fair share is taken back by share, not by priority",
       false},
      {"spec.resourceGroups.flavors.resources",
       "only nvidia.com/gpu has a quota here; other resources are held to what the nodes have",
       false},
  });
}

std::vector<NoEqual> flavor_reasons() {
  return with_common_reasons({
      {"spec.nodeLabels",
       "a device class is a model; other labels are asked for by the work itself", false},
      {"spec.nodeTaints", "taints are read from the nodes", false},
      {"spec.tolerations", "tolerations are read from the work", false},
      {"spec.topologyName", "domains are read from the nodes' labels", false},
  });
}

class KueueImport {
 public:
  KueueImport(std::vector<Manifest*> manifests, ImportNotes& notes)
      : manifests_(std::move(manifests)), notes_(notes) {}

  void run(std::vector<QueuePart>& parts) {
    for (Manifest* manifest : of_kind("ResourceFlavor"))
      read_flavor(*manifest);
    for (Manifest* manifest : of_kind("Cohort"))
      read_cohort(*manifest);
    for (Manifest* manifest : of_kind("ClusterQueue"))
      read_cluster_queue(*manifest);
    imply_cohorts();
    name_queues();
    for (Manifest* manifest : of_kind("LocalQueue"))
      read_local_queue(*manifest);
    for (Manifest* manifest : of_kind("WorkloadPriorityClass"))
      read_priority_class(*manifest);
    leave_out_others();
    for (Member& member : members_)
      write_dimensions(member);
    for (Member& member : members_)
      parts.push_back(std::move(member.part));
  }

 private:
  std::vector<Manifest*> of_kind(std::string_view kind) const {
    std::vector<Manifest*> found;
    for (Manifest* manifest : manifests_) {
      if (manifest->kind() == kind && is_read(*manifest)) found.push_back(manifest);
    }
    return found;
  }

  static bool is_read(const Manifest& manifest) {
    constexpr std::array<std::string_view, 5> kKinds = {"ClusterQueue", "Cohort", "LocalQueue",
                                                        "ResourceFlavor", "WorkloadPriorityClass"};
    return std::ranges::find(kKinds, manifest.kind()) != kKinds.end() &&
           (manifest.version() == "v1beta1" || manifest.version() == "v1beta2" ||
            (manifest.version() == "v1alpha1" && manifest.kind() == "Cohort"));
  }

  void leave_out_others() {
    for (const Manifest* manifest : manifests_) {
      if (is_read(*manifest)) continue;
      notes_.remarks.push_back(manifest->remark(
          fmt::format("{} of {} is no part of a quota tree that is read here: left out, with its "
                      "{} values",
                      manifest->kind(), manifest->version(), manifest->values())));
    }
  }

  void add_leftovers(const Manifest& manifest, const std::vector<NoEqual>& reasons) {
    for (std::string& remark : manifest.leftovers(reasons))
      notes_.remarks.push_back(std::move(remark));
  }

  static const yaml::Node* spec_of(const Manifest& manifest) {
    return Manifest::inside(&manifest.node(), "spec");
  }

  // A word that is written and not empty.
  std::optional<std::string> word(Manifest& manifest, const yaml::Node* map, std::string_view key) {
    const auto value = manifest.take(map, key);
    if (!value || value->node().is_null() ||
        (value->node().is_scalar() && value->node().text.empty())) {
      return std::nullopt;
    }
    return notes_.check(manifest, *value, value->word());
  }

  // --- flavors ----------------------------------------------------------------------------------

  void read_flavor(Manifest& manifest) {
    const yaml::Node* labels = Manifest::inside(spec_of(manifest), "nodeLabels");
    const auto product = word(manifest, labels, kProductLabel);
    classes_[manifest.name()] = product.value_or(manifest.name());
    if (!product) {
      notes_.remarks.push_back(manifest.remark(
          fmt::format("no label {}: its name is taken for the device class; write the model that "
                      "the fleet reports",
                      kProductLabel)));
    }
    add_leftovers(manifest, flavor_reasons());
  }

  std::string class_of(const Manifest& manifest, const Value& name, const std::string& flavor) {
    const auto [known, fresh] = classes_.try_emplace(flavor, flavor);
    if (fresh) {
      notes_.remarks.push_back(manifest.remark(
          name, "its ResourceFlavor is not given: its name is taken for the device class"));
    }
    return known->second;
  }

  // --- quotas -----------------------------------------------------------------------------------

  void read_groups(Manifest& manifest, Member& member) {
    const yaml::Node* groups = Manifest::inside(spec_of(manifest), "resourceGroups");
    if (groups == nullptr) return;
    for (const yaml::Node& group : groups->items) {
      // Says which resources the flavors below have, and those say it themselves.
      (void)manifest.take(&group, "coveredResources");
      const yaml::Node* flavors = group.find("flavors");
      if (flavors == nullptr) continue;
      for (const yaml::Node& flavor : flavors->items)
        read_cells(manifest, flavor, member);
    }
  }

  void read_cells(Manifest& manifest, const yaml::Node& flavor, Member& member) {
    const auto name = manifest.take(&flavor, "name");
    const auto text = name ? notes_.check(manifest, *name, name->word()) : std::nullopt;
    const yaml::Node* resources = flavor.find("resources");
    if (!text || resources == nullptr) return;
    for (const yaml::Node& resource : resources->items) {
      const yaml::Node* which = resource.find("name");
      if (which == nullptr) continue;
      manifest.use(*which);  // remarks on the others name them
      if (which->text != kGpu) continue;
      const std::string device_class = class_of(manifest, *name, *text);
      const auto [cell, fresh] = member.cells.try_emplace(device_class);
      if (!fresh) {
        notes_.remarks.push_back(manifest.remark(
            *name, fmt::format("a second flavor of device class {}: the quotas are added up",
                               device_class)));
      }
      add_cell(manifest, resource, cell->second, fresh);
      seen_classes_.insert(device_class);
    }
  }

  void add_cell(Manifest& manifest, const yaml::Node& resource, Cell& cell, bool fresh) {
    const auto amount = [&](std::string_view key) {
      auto read = take_thousandths(notes_, manifest, &resource, key);
      if (read && *read < 0) {
        notes_.errors.push_back(manifest.remark(Value(*resource.find(key), key, manifest.file()),
                                                "an amount from 0 is expected"));
      }
      return read;
    };
    const std::int64_t nominal = amount("nominalQuota").value_or(0);
    const auto borrowing = amount("borrowingLimit");
    const auto lending = amount("lendingLimit");
    if (fresh) {
      cell = {.nominal = nominal, .borrowing = borrowing, .lending = lending};
      return;
    }
    // Where one flavor borrows without limit, so does their sum; one without lendingLimit lends
    // all.
    cell.borrowing =
        cell.borrowing && borrowing ? std::optional(*cell.borrowing + *borrowing) : std::nullopt;
    if (cell.lending || lending) {
      cell.lending = cell.lending.value_or(cell.nominal) + lending.value_or(nominal);
    }
    cell.nominal += nominal;
  }

  // --- the tree ---------------------------------------------------------------------------------

  void read_cohort(Manifest& manifest) {
    Member member{.name = manifest.name(), .is_cohort = true};
    member.part.manifest = &manifest;
    const yaml::Node* spec = spec_of(manifest);
    for (const char* key : {"parentName", "parent"}) {
      if (const auto parent = word(manifest, spec, key)) member.parent = *parent;
    }
    read_common(manifest, member);
    add_leftovers(manifest, cluster_queue_reasons());
    members_.push_back(std::move(member));
  }

  void read_cluster_queue(Manifest& manifest) {
    Member member{.name = manifest.name()};
    member.part.manifest = &manifest;
    core::QueueSpec& queue = member.part.spec;
    const yaml::Node* spec = spec_of(manifest);
    for (const char* key : {"cohortName", "cohort"}) {
      if (const auto parent = word(manifest, spec, key)) member.parent = *parent;
    }
    queue.order =
        choice(manifest, spec, "queueingStrategy", kOrders, core::QueueOrder::best_effort);
    queue.stop = choice(manifest, spec, "stopPolicy", kStops, core::QueueStop::none);
    read_preemption(manifest, queue);
    read_common(manifest, member);
    add_leftovers(manifest, cluster_queue_reasons());
    members_.push_back(std::move(member));
  }

  void read_common(Manifest& manifest, Member& member) {
    take_created(notes_, manifest, member.part.spec);
    read_groups(manifest, member);
    const yaml::Node* sharing = Manifest::inside(spec_of(manifest), "fairSharing");
    const auto weight = take_thousandths(notes_, manifest, sharing, "weight");
    if (!weight) return;
    if (*weight < 0) notes_.errors.push_back(manifest.remark("fairSharing.weight is below zero"));
    if (*weight == 0) {
      notes_.remarks.push_back(
          manifest.remark("fairSharing.weight 0: becomes weight 0, which never goes above "
                          "deserved; in Kueue such a queue borrows last"));
    }
    member.part.weight = *weight;
  }

  template <typename T, std::size_t N>
  using Words = std::array<std::pair<std::string_view, T>, N>;

  static constexpr Words<core::QueueOrder, 2> kOrders = {
      {{"BestEffortFIFO", core::QueueOrder::best_effort},
       {"StrictFIFO", core::QueueOrder::strict}}};
  static constexpr Words<core::QueueStop, 3> kStops = {
      {{"None", core::QueueStop::none},
       {"Hold", core::QueueStop::hold},
       {"HoldAndDrain", core::QueueStop::hold_and_drain}}};
  static constexpr Words<core::ReclaimRight, 3> kReclaims = {
      {{"Never", core::ReclaimRight::never},
       {"LowerPriority", core::ReclaimRight::fair_share},
       {"Any", core::ReclaimRight::fair_share}}};
  static constexpr Words<core::PreemptRight, 3> kPreempts = {
      {{"Never", core::PreemptRight::never},
       {"LowerPriority", core::PreemptRight::lower_priority},
       {"LowerOrNewerEqualPriority", core::PreemptRight::lower_priority}}};

  template <typename T, std::size_t N>
  T choice(Manifest& manifest, const yaml::Node* map, std::string_view key,
           const Words<T, N>& words, T fallback) {
    const auto value = manifest.take(map, key);
    if (!value || value->node().is_null()) return fallback;
    return notes_
        .check(manifest, *value,
               value->choice(std::span<const std::pair<std::string_view, T>>(words)))
        .value_or(fallback);
  }

  void read_preemption(Manifest& manifest, core::QueueSpec& queue) {
    const yaml::Node* preemption = Manifest::inside(spec_of(manifest), "preemption");
    queue.reclaim =
        choice(manifest, preemption, "reclaimWithinCohort", kReclaims, core::ReclaimRight::never);
    queue.preempt =
        choice(manifest, preemption, "withinClusterQueue", kPreempts, core::PreemptRight::never);
    const auto differs = [&](std::string_view key, std::string_view text) {
      notes_.remarks.push_back(
          manifest.remark(Value(*preemption->find(key), key, manifest.file()), text));
    };
    if (queue.reclaim == core::ReclaimRight::fair_share) {
      differs("reclaimWithinCohort",
              "becomes reclaim: fairShare, which takes back up to the fair share, whatever the "
              "priority of what runs; write guarantee to take back no more than deserved");
    }
    if (const yaml::Node* within = Manifest::inside(preemption, "withinClusterQueue");
        within != nullptr && within->text == "LowerOrNewerEqualPriority") {
      differs("withinClusterQueue",
              "becomes preempt: lowerPriority; work of equal priority is left alone");
    }
  }

  // Parents that nobody describes are cohorts all the same.
  void imply_cohorts() {
    std::set<std::string> known;
    for (const Member& member : members_) {
      if (member.is_cohort) known.insert(member.name);
    }
    std::vector<Member> implied;
    for (const Member& member : members_) {
      if (member.parent.empty() || !known.insert(member.parent).second) continue;
      notes_.remarks.push_back(member.part.manifest->remark(
          fmt::format("cohort {}: no Cohort of this name is given; it becomes an inner queue "
                      "without a quota of its own",
                      request::printable(member.parent))));
      implied.push_back({.name = member.parent, .is_cohort = true});
    }
    std::ranges::move(implied, std::back_inserter(members_));
  }

  // Cohorts and ClusterQueues have their names apart, queues do not; `root` is taken.
  void name_queues() {
    std::set<std::string> taken = {std::string(core::kRootQueueName)};
    for (const bool cohorts : {false, true}) {
      for (Member& member : members_) {
        if (member.is_cohort != cohorts) continue;
        member.queue = member.name;
        while (!taken.insert(member.queue).second)
          member.queue += cohorts ? "-cohort" : "-queue";
        member.part.spec.name = member.queue;
        if (member.queue == member.name) continue;
        const std::string text =
            fmt::format("the name {} is taken in the tree: it becomes {}",
                        request::printable(member.name), request::printable(member.queue));
        notes_.remarks.push_back(
            member.part.manifest == nullptr ? text : member.part.manifest->remark(text));
      }
    }
    for (Member& member : members_) {
      if (const Member* parent = cohort(member.parent)) member.part.spec.parent = parent->queue;
    }
  }

  const Member* cohort(const std::string& name) const {
    for (const Member& member : members_) {
      if (member.is_cohort && member.name == name) return &member;
    }
    return nullptr;
  }

  void read_local_queue(Manifest& manifest) {
    const auto target = word(manifest, spec_of(manifest), "clusterQueue");
    if (const yaml::Node* stop = Manifest::inside(spec_of(manifest), "stopPolicy");
        stop != nullptr && stop->text == "None") {
      manifest.use(*stop);
    }
    const auto member = std::ranges::find_if(members_, [&](const Member& each) {
      return !each.is_cohort && target && each.name == *target;
    });
    notes_.remarks.push_back(manifest.remark(
        member == members_.end()
            ? "its ClusterQueue is not given: work that names it has nowhere to go"
            : fmt::format("not a queue of its own: its work is submitted with the label "
                          "berth.dev/queue: {}",
                          request::printable(member->queue))));
    add_leftovers(
        manifest,
        with_common_reasons({
            {"spec.stopPolicy", "a name for a queue cannot be stopped; stop the queue", false},
            {"spec.fairSharing", "the work of one queue is ordered by priority and age", false},
        }));
  }

  void read_priority_class(Manifest& manifest) {
    const auto value = word(manifest, &manifest.node(), "value");
    notes_.remarks.push_back(manifest.remark(fmt::format(
        "priority classes are not kept: work of this class is submitted with priority {}",
        value ? request::printable(*value) : "0")));
    add_leftovers(
        manifest,
        with_common_reasons({{"description", "priorities are numbers, without a text", false}}));
  }

  // --- Kueue's algebra --------------------------------------------------------------------------

  // `way`: the cohorts above, to end on a cycle; such a tree is on hold whatever its figures.
  Sums sums_of(const Member& member, const std::string& device_class,
               std::set<const Member*>& way) const {
    Sums sums;
    if (!way.insert(&member).second) return sums;
    const auto cell = member.cells.find(device_class);
    sums.any = cell != member.cells.end();
    if (sums.any) sums.total = sums.lendable = cell->second.nominal;
    if (member.is_cohort) {
      for (const Member& child : members_) {
        if (child.parent != member.name) continue;
        const Sums below = sums_of(child, device_class, way);
        sums.any = sums.any || below.any;
        // Beyond the largest quota the file is refused anyway.
        sums.total = std::min(sums.total + below.total, core::kMostQuota);
        sums.kept = std::min(sums.kept + below.kept, core::kMostQuota);
        sums.lendable = std::min(sums.lendable + below.lendable - below.own_kept, core::kMostQuota);
      }
    }
    if (cell != member.cells.end() && cell->second.lending && !member.parent.empty()) {
      sums.own_kept = std::max<std::int64_t>(0, sums.lendable - *cell->second.lending);
    }
    sums.kept += sums.own_kept;
    way.erase(&member);
    return sums;
  }

  void write_dimensions(Member& member) {
    for (const std::string& device_class : seen_classes_) {
      std::set<const Member*> way;
      const Sums sums = sums_of(member, device_class, way);
      const bool on_top = member.parent.empty();
      if (!sums.any && member.is_cohort && !on_top) continue;
      const auto cell = member.cells.find(device_class);
      core::QueueDimension dimension{.device_class = device_class};
      dimension.deserved = sums.total;
      dimension.reserved = sums.own_kept == 0 ? 0 : sums.kept;
      if (on_top || !sums.any) {
        dimension.limit = sums.total;
      } else if (cell != member.cells.end() && cell->second.borrowing) {
        dimension.limit = sums.total + *cell->second.borrowing;
      }
      member.part.spec.dimensions.push_back(dimension);
      remark_bounds(member, device_class, on_top);
    }
  }

  void remark_bounds(const Member& member, const std::string& device_class, bool on_top) {
    const auto cell = member.cells.find(device_class);
    if (member.part.manifest == nullptr || cell == member.cells.end()) return;
    const auto say = [&](std::string_view text) {
      notes_.remarks.push_back(member.part.manifest->remark(
          fmt::format("{}/devices: {}", request::printable(device_class), text)));
    };
    if (on_top && (cell->second.borrowing || cell->second.lending)) {
      say("there is no cohort above: borrowingLimit and lendingLimit mean nothing, the limit is "
          "what it has");
    } else if (member.is_cohort && cell->second.borrowing) {
      say("the limit counts what runs below; in Kueue what those below keep idle counts too");
    }
  }

  std::vector<Manifest*> manifests_;
  ImportNotes& notes_;
  std::vector<Member> members_;
  std::map<std::string, std::string> classes_;  // flavor -> device class
  std::set<std::string> seen_classes_;
};

}  // namespace

void import_kueue(std::vector<Manifest*> manifests, ImportNotes& notes,
                  std::vector<QueuePart>& parts) {
  KueueImport(std::move(manifests), notes).run(parts);
}

}  // namespace berth::config
