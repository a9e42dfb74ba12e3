// The engine's one state and the steps that change it. Private to this folder and to its tests.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/entry.h"
#include "core/engine/gang_state.h"
#include "core/engine/kinds.h"
#include "core/engine/node_outlook.h"
#include "core/engine/quotas.h"
#include "core/engine/reservations.h"
#include "core/engine/stages.h"
#include "core/engine/timers.h"
#include "core/ledger/ledger.h"
#include "core/placement/class_counts.h"
#include "core/placement/domains.h"
#include "core/placement/index.h"
#include "core/placement/member_counts.h"
#include "core/placement/shape.h"
#include "core/queue/waiting_room.h"

namespace berth::core {

// Who used memory of a device without a grant there, as the last sample named it.
struct Stranger {
  std::string name;  // as the harbour calls the process
  std::int64_t bytes = 0;
};

class Scratch;
struct Planned;
struct ClaimPlan;

// What runs in a leaf, in the order in which it would be the first to go.
struct Runner {
  std::int64_t priority = 0;
  std::int64_t age_order = 0;  // newest first
  std::string uid;
  WorkloadId id;
  auto operator<=>(const Runner&) const = default;
};

// A search that found nothing.
struct FailedSearch {
  std::uint64_t changes = 0;  // what had happened by then (Impl::claim_changes_)
  Time rests_until;
  int times = 0;      // in a row
  bool told = false;  // the timer for its rest is set
};

// What is known of the claims of a kind that waits.
struct KindClaims {
  std::optional<FailedSearch> failed;  // its first searched and found nothing
  // Whether its first may claim, apart from what the fleet has left (Impl::may_claim), for as long
  // as its queue stands as it stood.
  bool known = false;
  std::uint64_t standing = 0;  // QueueTree::changes of the queue
  std::uint64_t capacity = 0;  // Quotas::capacity_version
  QueueId leaf;
  bool by_share = false;   // by its shares, or by priority inside its queue
  bool by_pieces = false;  // if what it takes is free in pieces
  Charge charge;           // then
};

// An answer of each node to a shape that stays as it is until the node changes.
template <typename Answer>
class ByNode {
 public:
  struct Known {
    std::uint64_t asked_at = 0;  // the node's last change then, counted from 1; 0: never asked
    Answer answer = {};
  };
  // True when it must be found anew, which the caller does.
  bool is_old(NodeId node, const ChangeLog& log, Known*& here) {
    if (known_.size() <= node.index()) {
      known_.resize(node.index() + 1);
    }
    here = &known_[node.index()];
    const std::uint64_t changed = log.last_change(node) + 1;
    return std::exchange(here->asked_at, changed) != changed;
  }

 private:
  std::vector<Known> known_;
};

// Why a workload of a shape in a queue can never run, or that it can, until the fleet changes.
struct KnownNever {
  ShapeId shape;
  QueueId leaf;
  std::uint64_t capacity = 0;  // Quotas::capacity_version
  std::uint64_t fleet = 0;     // Impl::fleet_version_
  Cause cause = Cause::none;
};

// Whether the fleet has as much left as a charge takes, for as long as nothing is booked.
struct KnownPieces {
  Charge charge;
  std::uint64_t standing = 0;  // QueueTree::changes of the root
  std::uint64_t capacity = 0;  // Quotas::capacity_version
  bool fits = false;
};

class Engine::Impl {
 public:
  Impl(EngineConfig config, std::unique_ptr<Policy> policy, Stopwatch* stopwatch);

  std::span<const Action> apply(const Event& event);

  // --- reading (explain.cc, verify.cc, engine.cc)
  const Entry* find(std::string_view uid) const;

  bool knows(WorkloadId id) const { return id.index() < entries_.size(); }
  const Entry& entry(WorkloadId id) const { return entries_[id.index()]; }

  Verdict explain(const Entry& entry) const;
  Result<void> verify() const;

  EngineConfig config;
  Fleet fleet;
  Ledger ledger;
  NodeTypes types;
  mutable Shapes shapes;
  mutable PlacementIndex index;
  mutable Quotas quotas;
  WaitingRoom waiting;
  Kinds kinds;  // of the waiting
  Time now;
  StageBook stages;
  int suppositions = 0;  // open ones: what changes now is not so
  int trials = 0;        // open ones (trial.h): what is asked now is nobody's question

  const GangState& gang(WorkloadId head) const { return gangs_.at(head); }

 private:
  friend class Engine;
  friend class ClaimSearch;
  friend class GangPlanner;
  friend class GangProof;
  friend class Scratch;
  friend class Sentence;
  friend class Trial;
  friend class UnblockSearch;

  // --- events (events.cc)
  void on(const NodeUpserted& event);
  void on(const NodeRemoved& event);
  void on(const DeviceCordoned& event);
  void on(const DeviceObserved& event);
  void on(const WorkloadSubmitted& event);
  void on(const WorkloadCancelled& event);
  void on(const GrantConfirmed& event);
  void on(const GrantReleasing& event);
  void on(const GrantReleased& event);
  void on(const GrantLost& event);
  void on(const WorkloadInitialized& event);
  void on(const GrantAdopted& event);
  void on(const PolicyChanged& event);
  void on(const HistoryChanged& event);
  void on(const QueuesChanged& event);
  void on(const TopologiesChanged& event);
  void on(const MembersJoined& event);
  void on(const TimeReached& event);
  void on(const GrantingHeld& event);
  void refuse(std::string text);
  void fire(const Timer& timer);
  void age_samples();
  void note_strangers(DeviceId device, const DeviceObserved& event);

  // --- workloads (entries.cc)
  WorkloadId new_entry(const Workload& workload);
  void forget_entry(WorkloadId id);
  void set_state(WorkloadId id, EntryState state, Cause cause);
  KindKey kind_key(WorkloadId id) const;
  void enqueue(WorkloadId id);
  void dequeue(WorkloadId id);
  void set_wait_timer(WorkloadId id);
  void clear_wait_timer(WorkloadId id);
  void end(WorkloadId id, Cause why);
  void take_back(WorkloadId id, Cause why, bool lost, bool requeue);
  void drop_grant(WorkloadId id);
  void begin_release(WorkloadId id);
  bool runs(WorkloadId id) const;
  void lose_devices(NodeId node, const std::vector<DeviceId>& devices);
  void book_grant(WorkloadId id, std::unique_ptr<Grant> grant);
  PoolId pool_of(const Shape& shape, QueueId leaf);
  Appetite needs_of(const Shape& shape) const;
  Appetite needs_of_gang(WorkloadId head) const;
  WorkloadId id_of(std::string_view uid) const;

  Entry& at(WorkloadId id) { return entries_[id.index()]; }

  // --- by what it is placed (terms.cc)
  void rank_by(std::unique_ptr<Policy> policy);
  void rank_by_name(PolicyId id) const;
  PolicyId policy_named(const std::string& name) const;
  ShapeTerms terms_of(const WorkloadOptions& options, QueueId leaf) const;
  void read_terms(WorkloadId id);
  void release_shape(ShapeId shape);
  static std::vector<QueueProblem> policy_problems(const QueueConfig& queues);

  // --- gangs (gangs.cc)
  void submit_gang(const Workload& workload);
  std::vector<WorkloadId> add_members(WorkloadId head, std::size_t group, const MemberSet& set);
  void check_topology(WorkloadId head);
  const Domains* domains_for(const TopologyRule& rule) const;
  void sync_domains(NodeId node);
  void give_slot(WorkloadId replacement);
  void seat_all(GangState& state);
  void seat(WorkloadId member);
  void retry_gang(WorkloadId head);
  void for_members(WorkloadId head, const std::function<void(WorkloadId)>& visit) const;
  bool is_member(WorkloadId id) const { return !entry(id).gang.is_none() && entry(id).gang != id; }
  bool is_head(WorkloadId id) const { return entry(id).gang == id; }
  bool is_present(WorkloadId member) const;
  std::int64_t present_in(const GangState& state, std::size_t group) const;
  bool has_minimum(const GangState& state) const;
  bool is_missed(WorkloadId member) const;
  bool waits_with_gang(WorkloadId id) const;
  void leave_gang(WorkloadId member, bool succeeded);
  void set_gang_timer(std::optional<Time>& due, TimerKind kind, WorkloadId head,
                      std::optional<Time> to);
  void review_gangs();
  void review_gang(WorkloadId head);
  void fall_back(WorkloadId head);
  void evict_stale(WorkloadId head);
  void evict_gang(WorkloadId head, Evicted::Rule rule, const std::string& text);
  void start_eviction(WorkloadId id, Evicted::Rule rule, WorkloadId beneficiary, NodeId moves_to,
                      std::string text);
  void leave_as_a_whole(WorkloadId head);
  void start_failed(WorkloadId head);
  void end_gang(WorkloadId head, Cause why);
  void keep_slot(WorkloadId member);

  // --- a gang is tried (gang_start.cc)
  bool try_gang(WorkloadId head);
  bool start_gang(WorkloadId head, bool later);
  void take_out_releasing(Scratch& scratch);
  bool plan_gang(WorkloadId head, Scratch& scratch);
  void commit_gang(WorkloadId head, std::vector<Planned> plan, bool later);
  void gang_started(WorkloadId head);
  void settle_gang_promises();
  void withdraw_gang(WorkloadId head);
  void say_of_gang(WorkloadId head, EntryState state, Cause cause);

  // --- what is asked about a gang (gang_questions.cc)
  const std::string& gang_wish(WorkloadId head);
  Charge wish_of(WorkloadId id) const;
  Charge minimum_charge(const GangState& state, std::size_t group) const;
  const Charge& turn_charge(WorkloadId id) const;
  std::int64_t existing_in(const GangState& state, std::size_t group) const;
  std::int64_t most_members(const Shape& shape) const;
  PlacementIndex::NodeState bare_node(NodeId node) const;
  Cause gang_never(WorkloadId head) const;
  std::int64_t most_on(const Shape& shape, NodeId node) const;
  Cause gang_waiting_cause(WorkloadId head) const;
  std::uint64_t quota_places(WorkloadId member, NodeId node) const;
  bool quota_open(WorkloadId member) const;
  NodeRoom room_on(const Shape& shape, NodeId node, std::uint64_t allowed) const;
  std::int64_t free_devices_in(const Domains& domains, DomainId domain) const;
  std::vector<bool> nodes_for_member(WorkloadId member) const;
  DomainId home_of_segment(WorkloadId member, const Domains& domains,
                           const LevelRule::Segment& segment) const;
  DomainId home_of_group(const GangState& state, std::size_t group, const Domains& domains,
                         int level) const;

  // --- claims (claims.cc)
  bool plan_task(WorkloadId id, Scratch& scratch);
  bool plan_minimum(WorkloadId head, Scratch& scratch);
  bool is_delayed(const Entry& one) const;
  Duration claim_delay(const Entry& one) const;
  bool has_rights(const Entry& one) const;
  bool may_claim(WorkloadId id) const;
  bool can_claim(const Entry& one) const;
  bool would_fit_in_pieces(const Charge& charge) const;
  bool try_claim(WorkloadId id);
  void carry_out(WorkloadId claimant, ClaimPlan plan);
  void hold_for(WorkloadId mover, std::unique_ptr<Grant> grant);
  void take_hold(WorkloadId mover, bool moves);
  void claims_changed();
  void wake_claims_at(Time time, TimerKind kind);
  bool failed_before(KindId kind);
  bool failed_for_another(WorkloadId head);
  bool would_fail_again(FailedSearch& failed);
  KindClaims& claims_of(KindId kind);
  bool may_claim_by_share(WorkloadId id) const;
  bool first_may_claim(KindId kind);
  bool fits_in_pieces(const Charge& charge);
  void note_failed(FailedSearch& failed, std::int64_t steps) const;
  Runner runner_of(WorkloadId id, const Grant& grant) const;
  void wake_claimants(std::set<KindId>& woken);
  void drain_queues();

  // --- the queue tree's bookings (queue_books.cc)
  void read_queue(WorkloadId id);
  void reread_queues();
  void set_demand(WorkloadId id, Charge demand);
  void book_queue(WorkloadId id, const Grant& grant);
  void unbook_queue(WorkloadId id);
  void rebook_queue(WorkloadId id);
  void rebook_reshaped();
  void report(const std::vector<QueueProblem>& problems);
  bool is_preemptible(const WorkloadOptions& options) const;
  Aging aging_of(const Entry& entry) const;
  bool queue_has_room_for(const Entry& entry) const;
  bool queue_admits(const Entry& entry, Counting counting) const;
  Cause quota_never(const Entry& entry) const;
  Cause never_cause(WorkloadId id) const;
  Cause find_never_cause(const Entry& entry) const;
  void give_up(WorkloadId id, Cause cause);
  void note_blocked(WorkloadId id);
  void wake_by_quota(std::set<KindId>& woken);

  Result<void> verify_queues() const;  // verify.cc
  Result<void> verify_plans() const;
  Result<void> verify_gang(WorkloadId head) const;

  // --- granting is held (hold.cc)
  void run_held_pass();
  void hold_back(WorkloadId id);
  void catch_up();

  // --- the pass (pass.cc, turns.cc)
  class Lines;

  void improved(NodeId node) {
    improved_.insert(node);
    ++claim_changes_;
  }

  void run_pass();
  void settle_improved();
  void retry_promised(const std::set<NodeId>& nodes);
  void try_in_order(const std::set<KindId>& woken);
  void add_helped_by(NodeId node, std::set<KindId>& helped, std::int64_t& steps) const;
  std::set<KindId> woken_kinds();
  void say_why(const std::vector<WorkloadId>& back);
  Appetite offer_of(NodeId node) const;
  bool try_workload(WorkloadId id);
  Selection select_for(WorkloadId id, const QuotaView* quota);
  bool behind_head(WorkloadId id) const;
  bool is_strict(const Entry& entry) const;
  Cause possible(const Shape& shape) const;
  Cause possible_for_constrained(const Shape& shape) const;
  void recheck_possible();
  Cause waiting_cause(const Shape& shape, WorkloadId id) const;
  Cause waiting_cause_among(const Shape& shape, WorkloadId id, const QuotaView& quota) const;
  std::unique_ptr<Grant> make_grant(WorkloadId id, NodeId node, std::span<const DeviceFace> faces,
                                    const std::vector<ContainerPlaces>& placed) const;
  void commit(WorkloadId id, std::unique_ptr<Grant> grant);

  // --- promises (promises.cc)
  bool try_promise(WorkloadId id, const Selection& now_best);
  bool may_take_once_released(ByNode<bool>& known, ShapeId shape, NodeId node);
  void promise(WorkloadId id, std::unique_ptr<Grant> grant);
  void keep_promise(WorkloadId id);
  void settle_promises(NodeId node);
  void withdraw_promises(NodeId node);
  std::vector<WorkloadId> promises_on(NodeId node) const;
  bool promise_holds(const Entry& entry, bool after_releases) const;

  // --- the places that waiting gangs will get (gang_reservations.cc)
  struct GangReservation {
    WorkloadId holder;
    std::map<NodeId, std::uint64_t> places = {};  // device places
    bool timed = false;
    Time at = {};
    Time planned_at = {};
    std::uint64_t seen = 0;  // change log position
  };
  // A plan may be so old while nothing contradicts it.
  static constexpr Duration kReplanGangAfter{30'000};
  WorkloadId reserving_gang(PoolId pool) const;
  void update_gang_reservation(PoolId pool);
  void drop_gang_reservation(PoolId pool);
  GangReservation plan_gang_ahead(WorkloadId head);
  std::vector<std::pair<Time, WorkloadId>> declared_ends() const;
  std::vector<WorkloadId> by_emptiest_node() const;
  std::vector<const GangReservation*> gangs_before(WorkloadId id) const;
  bool makes_way(const Entry& asking) const;
  Cause cause_beside_gangs(ShapeId shape, WorkloadId id, Cause cause) const;
  std::optional<EtaEstimate> eta_of_gang(WorkloadId head) const;

  // --- reservations (reservations.cc)
  void update_reservations();
  bool reserve_for(PoolId pool);
  void replan_all(std::uint64_t changes);
  bool may_reserve(WorkloadId id) const;
  void drop_reservation(PoolId pool);
  void replan(Reservation& reservation, const std::vector<NodeId>& vacated);
  void choose_node(Reservation& reservation);
  void move_to(Reservation& reservation, NodeId node);
  void reserve_on(NodeId node, Reservation& reservation);
  void leave_reserved(NodeId node, Reservation& reservation);
  std::span<Reservation* const> reserved_on(NodeId node) const {
    return node.index() < reserved_on_.size() ? std::span(reserved_on_[node.index()])
                                              : std::span<Reservation* const>();
  }

  // --- plans (reservation_plans.cc)
  // What reservations that come before the one that is planned for hold on a node, in order.
  using Ahead = std::vector<HeldPlaces>;
  // Valid until the next call.
  const Ahead& ahead_of(Reservation& reservation, NodeId node);
  bool holder_before(Reservation& a, Reservation& b);
  void find_path(Reservation& reservation);
  const HolderStanding& standing_now(HolderStanding& one, const Reservation& reservation);
  HeldAhead held_by(const Ahead& ahead, NodeId node) const;
  // Stays valid until the next call.
  const NodeOutlook& outlook_of(NodeId node) const;
  void look_ahead(NodeId node, NodeOutlook& outlook) const;
  void update_plans();
  void update_plans_of(ShapeId shape, ShapePlans& plans);
  void update_plan(ShapeId shape, ShapePlans& plans, NodeId node);
  NodePlan plan_for(Reservation& reservation, NodeId node);
  NodePlan plan_node(ShapeId shape, NodeId node, const Ahead& ahead) const;
  NodePlan plan_timed(ShapeId id, NodeId node, const HeldAhead& held) const;
  NodePlan plan_untimed(ShapeId id, NodeId node, const HeldAhead& held) const;
  NodePlan plan_in(ShapeId shape, NodeId node, PlacementIndex::NodeState state,
                   const HeldAhead& held) const;
  void guard(NodeId node);
  void unguard(NodeId node);
  std::optional<std::uint64_t> allowed_on(const Reservation& reservation, WorkloadId id,
                                          NodeId node) const;
  GuardRule guard_for(WorkloadId id, bool decided = false) const;
  bool stays(const Reservation& reservation, const Entry& holder) const;

  // --- numbers of verdicts (explain.cc, explain_parts.cc); the words are in sentence.h
  WorkloadId searched_for(WorkloadId id) const;
  Charge asked_of_queue(WorkloadId id) const;
  void explain_parts(WorkloadId id, Verdict& verdict) const;
  void explain_quota(WorkloadId id, Verdict& verdict) const;
  void explain_gang(WorkloadId id, Verdict& verdict) const;
  void count_in_domains(const GangState& state, Verdict::TopologyFit& fit) const;
  std::int64_t minimum_members(const GangState& state, std::size_t group) const;
  std::int64_t existing_members(const GangState& state, std::size_t group) const;
  Verdict::Devices devices_for(const Shape& shape) const;
  std::int64_t usable_devices(const DeviceAsk& ask, NodeId node) const;  // when all are free
  std::int64_t free_devices(const DeviceAsk& ask, NodeId node) const;
  std::int64_t most_free_devices(const Shape& shape) const;
  bool got_linked_devices(const Grant& grant, const Request& request) const;
  void explain_grant(const Entry& entry, Verdict& verdict) const;
  void explain_waiting(const Entry& entry, WorkloadId id, Verdict& verdict) const;
  // The node's answer to the workload, as the counts of a verdict have it.
  Cause answer_of(const Entry& entry, NodeId node) const;
  Cause never_cause_on(const Shape& shape, NodeId node) const;

  // A node as it would be without some of its grants.
  using GrantRule = std::function<bool(WorkloadId)>;
  PlacementIndex::NodeState node_without(NodeId node, const GrantRule& gone) const;
  PlacementIndex::NodeState node_once_released(NodeId node) const;
  std::int64_t effective_priority(const Entry& entry) const;
  bool ordered_before(WorkloadId a, WorkloadId b) const;

  Entries entries_;
  std::vector<WorkloadId> free_entries_;
  std::vector<WorkloadId> ended_;  // slots to free at the next apply
  std::unordered_map<std::string, WorkloadId> by_uid_;
  std::vector<std::vector<WorkloadId>> on_node_;  // by node: promised and granted
  std::map<std::pair<QueueId, std::string>, PoolId> pools_by_key_;
  struct ShapePool {
    QueueId leaf;
    PoolId pool;
    bool known = false;
  };
  std::vector<ShapePool> pools_of_shapes_;  // the last one asked for
  std::vector<std::string> pool_names_;
  std::set<WorkloadId> never_;
  std::set<WorkloadId> promised_;
  std::set<NodeId> quota_promises_;  // whose promises may wait for nothing but their queue
  std::set<NodeId> releasing_nodes_;
  std::set<NodeId> improved_;
  std::set<NodeId> reshaped_;      // nodes described anew in this event
  std::set<WorkloadId> requeued_;  // wait again and have not been tried anywhere yet
  std::set<PoolId> touched_pools_;
  std::map<WorkloadId, GangState> gangs_;  // by head
  std::set<WorkloadId> touched_gangs_;
  std::set<WorkloadId> promised_gangs_;
  std::vector<Topology> topologies_;
  std::vector<Domains> domains_;  // by topology
  std::map<PoolId, Reservation> reservations_;
  std::vector<std::vector<Reservation*>> reserved_on_;  // by node: what lies there
  std::uint64_t plans_seen_ = 0;                        // lasting changes that they know
  bool replan_due_ = false;                             // something else has changed for them
  std::optional<Time> heads_seen_;
  std::vector<NodeId> vacated_;                // since the plans were looked at
  std::map<ShapeId, ShapePlans> shape_plans_;  // of shapes with a reservation
  struct KnownOutlook {
    NodeOutlook outlook;
    std::uint64_t seen = 0;  // lasting changes that it knows
    bool made = false;
  };
  mutable std::vector<KnownOutlook> outlooks_;  // by node
  mutable NodeOutlook supposed_outlook_;
  std::uint64_t order_round_ = 0;
  std::uint64_t demands_ = 0;  // changes of what some workload asks for
  std::vector<HeldPlaces> ahead_memory_;
  std::map<PoolId, GangReservation> gang_reservations_;
  std::map<NodeId, int> guards_;
  Timers timers_;
  std::optional<Time> announced_wake_;
  std::optional<Time> samples_due_;
  std::vector<Action> actions_;
  std::map<DeviceId, std::vector<Stranger>> strangers_;  // of the last samples, where known
  ClassCounts history_;
  mutable std::vector<std::string> policy_names_{""};  // by PolicyId; the engine's has none
  bool queues_have_terms_ = false;                     // some queue names a policy or a cap
  std::uint64_t grants_made_ = 0;
  std::uint64_t grants_before_ = 0;  // made before the present call
  std::vector<QueueId> blocked_by_;  // queues that refused the last workload tried
  std::map<KindId, std::vector<QueueId>> quota_waits_;  // kinds that queues refused, and which
  std::map<QueueId, std::set<Runner>> runners_;         // by leaf: what runs
  std::int64_t backfillers_ = 0;                        // of them, marked to make way
  std::map<std::string, FailedSearch> failed_gangs_;    // by what they ask for (gang_wish)
  std::vector<KindClaims> kind_claims_;                 // by kind, of those that wait
  std::vector<KnownPieces> known_pieces_;               // of the few charges that kinds have
  std::map<std::pair<ShapeId, QueueId>, FailedSearch> failed_moves_;           // claim_many.cc
  std::map<ShapeId, ByNode<std::optional<std::int64_t>>> booked_on_emptiest_;  // claim_many.cc
  std::map<ShapeId, ByNode<bool>> open_once_released_;                         // promises.cc
  static constexpr std::size_t kKnownNevers = 1024;
  mutable std::vector<KnownNever> known_nevers_ = std::vector<KnownNever>(kKnownNevers);
  std::uint64_t fleet_version_ = 1;
  // Who had to leave so that another queue got back its share, and for whose work: leaves. As long
  // as queues and fleet stay as they are.
  std::map<WorkloadId, std::set<QueueId>> displaced_for_;
  std::uint64_t claim_changes_ = 0;  // of everything by which a claim could come to succeed
  std::int64_t may_be_asked_ = 0;    // preemptible ones among the runners
  std::int64_t claim_steps_ = 0;     // of the searches of this event
  bool claims_dirty_ = false;        // somebody may have a claim that had none
  std::set<QueueId> freed_;          // leaves that hold less than before
  std::uint64_t capacity_seen_ = 0;
  std::int64_t wake_steps_ = 0;
  bool fleet_changed_ = false;
  bool granting_held_ = false;
  bool started_ = false;
};

}  // namespace berth::core
