// Harbour: a cluster's pods over one engine. Changes of objects in, writes out.
//
//   TRY(auto harbour, Harbour::create(config, now));
//   harbour->pod_changed(pod, now);  …           // everything that lists and watches bring
//   harbour->set_ready(true, now);               // all of it was told, and we lead
//   harbour->settle(now);                        // decides
//   for (Deed& deed : harbour->take(room)) send(deed);
//   harbour->answered(number, said, now);
//
// It reads no clock, sends nothing and starts no thread: the same calls give the same deeds. Engine
// time is milliseconds since 1970, so that a pod's age is its own.
//
// A grant is a promise of ours until it is taken with take(); until then it can be withdrawn, after
// that only an answer, a reading or the watch decides. What is promised counts in the engine from
// the decision until the pod is gone, has ended, or surely was not bound.
//
// Invariants (check()): a pod has a grant in the engine iff it lies on a present node or is on its
// way to one; of every pod on its way at most one binding is outstanding, always the same one; no
// name has two pods. Thread-safety: none; one decision thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "core/engine/engine.h"
#include "kube/objects/node_reading.h"
#include "kube/objects/objects.h"
#include "kube/scheduler/census.h"
#include "kube/scheduler/holdings.h"
#include "kube/scheduler/pod_plan.h"
#include "kube/scheduler/volumes.h"
#include "kube/scheduler/writes.h"
#include "request/pod.h"

namespace berth::kube {

struct HarbourConfig {
  std::string scheduler_name = "berth-scheduler";
  core::EngineConfig engine = {};  // ledger-only and without evictions, whatever it says
  std::optional<core::QueueConfig> queues = {};
  request::PodRules rules = {};
  NodeRules nodes = {};
  bool assigns_whole = false;    // whole devices are named in the binding, too
  bool must_be_admitted = true;  // shares need the environment that the webhook injects
  Duration tell_every{30'000};   // a pod's condition at most so often
  Duration look_again{300'000};  // a condition that nobody asked about is compared
  Duration series_refresh{1'800'000};
  Duration series_ends{360'000};     // of silence
  Duration volumes_within{600'000};  // claims are bound by then, or the place is given up
  Duration watch_may_lag{1'500};
  Duration surely_over{60'000};  // the server ends every write by then
};

// Counted since the start, for metrics.
struct HarbourFigures {
  std::int64_t decisions = 0;  // grants
  std::int64_t bound = 0;
  std::int64_t withdrawn = 0;  // grants of which nothing was sent
  std::int64_t refused = 0;    // bindings that the server refused
  std::int64_t unknown = 0;    // bindings without an answer
  std::int64_t conflicts = 0;  // 409
  std::int64_t patches = 0;
  std::int64_t events = 0;
  std::int64_t alarms = 0;
};

enum class PodPhase : std::uint8_t {
  refused,    // its own words are wrong: waits until it changes
  gated,      // schedulingGates are left
  kept,       // a rule of this room allows no node, or it may be tried again later
  waiting,    // in the engine
  preparing,  // granted; its claims are being provided
  granted,    // the binding waits to be taken
  sent,
  bound,      // said by the answer
  confirmed,  // ours, said by the watch
  foreign
};

// A line for the log, and for people who operate it.
struct HarbourNews {
  std::string_view kind;  // "granted", "bound", "withdrawn", "alarm", …
  std::string pod;
  std::string node;
  std::string text;
};

class Harbour {
 public:
  // Errors: those of Engine::create.
  static Result<std::unique_ptr<Harbour>> create(HarbourConfig config, Time now);
  ~Harbour();
  Harbour(const Harbour&) = delete;
  Harbour& operator=(const Harbour&) = delete;

  // --- objects. An object of another uid under a known name replaces the one that was there.
  void pod_changed(const Pod& pod, Time now);
  // `uid` empty: whichever it is. Of another uid: nothing.
  void pod_gone(std::string_view id, std::string_view uid, Time now);
  void node_changed(const Node& node, Time now);
  void node_gone(std::string_view name, std::string_view uid, Time now);
  void namespace_changed(const Namespace& object);
  void namespace_gone(std::string_view name);
  // Volumes, classes and CSI objects: changed through the census, then touched.
  Census& storage() { return census_; }
  void storage_changed(Time now);

  // --- what may be done. Ready: every cache was told in full and nobody else leads. Until then the
  // books are kept, and nothing is decided or said.
  void set_ready(bool ready, Time now);
  bool ready() const { return ready_; }
  void set_queues(core::QueueConfig queues, Time now);
  void tick(Time now);
  std::optional<Time> next_due() const;
  // Looks at what came and decides. Changes take effect here, not before.
  void settle(Time now);

  // --- deeds. Bindings first, then readings and claims, conditions, events.
  struct Room {  // at most so many of a kind
    std::size_t bindings = 0;
    std::size_t conditions = 0;
    std::size_t events = 0;
  };
  std::vector<Deed> take(const Room& room, Time now);
  bool has_deeds() const;
  // Whether the watch owes us a binding that was confirmed a while ago: then it owes us the rest of
  // what happened, too, and what is decided may rest on what is no more.
  bool watch_lags(Time now) const;
  void answered(std::uint64_t number, const Said& said, Time now);

  // --- questions
  const core::Engine& engine() const { return *engine_; }
  const HarbourFigures& figures() const { return figures_; }
  std::vector<HarbourNews> take_news() { return std::exchange(news_, {}); }
  struct Words {
    std::string reason;  // of the condition
    std::string message;
  };
  std::optional<PodPhase> phase(std::string_view id) const;
  // The reason of its condition as it was told last, without looking anew; empty: none.
  std::string reason(std::string_view id) const;
  // Why it waits; empty when it does not.
  std::optional<Words> words(std::string_view id) const;
  struct View {
    PodPhase phase = PodPhase::kept;
    std::string queue;
    std::string node;  // that it lies on or is promised
    std::int64_t created_ms = 0;
    bool deleting = false;
    const Holdings* holds = nullptr;  // of devices; valid until the next change
  };
  std::optional<View> view(std::string_view id) const;
  // Pods of ours, by name.
  std::vector<std::string> ours() const;
  std::size_t pods() const { return pods_.size(); }
  const Census& census() const { return census_; }
  // Called with every event of the engine and what it answered: the decision log.
  using Tap = std::function<void(const core::Event&, std::span<const core::Action>)>;
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  Result<void> check() const;

 private:
  enum class DeedKind : std::uint8_t { bind, read, claim, condition, event };

  // What is on its way from the grant to the confirmed binding.
  struct Way {
    Labels annotations;
    std::uint64_t grant = 0;
    std::uint64_t deed = 0;  // that is outstanding; 0: none
    Time sent;               // the first time
    int failures = 0;
    bool queued = false;       // in the line of those to be taken
    bool may_be_done = false;  // a binding was sent and its outcome is not known
    std::vector<ClaimStep> claims;
    Time give_up;
  };

  // What its condition says.
  struct Told {
    std::uint64_t hash = 0;
    std::uint64_t deed = 0;  // the last write of it
    std::string reason;
    Time at;
    std::uint64_t changes = 0;  // of the books, when it was compared last
    std::int64_t transition_ms = 0;
    std::int64_t series_first_us = 0;
    std::int64_t series_count = 0;
    std::int64_t series_said = 0;  // the count that was written last
    Time series_last;
    Time series_written;
  };

  struct PodRecord {
    PodFacts facts;
    PodPhase phase = PodPhase::foreign;
    bool booked = false;  // it has a grant in the engine
    bool initialized = false;
    std::int64_t created_ms = 0;
    std::int64_t generation = 0;
    std::shared_ptr<const PodPlan> plan;  // of ours until it is confirmed
    // Of one that lies on a node or is on its way there.
    std::shared_ptr<const Holdings> holds;
    std::string queue;
    std::int64_t priority = 0;
    bool preemptible = false;
    std::unique_ptr<Way> way;
    std::unique_ptr<Told> told;
    // While it waits.
    std::uint32_t grounds = 0;     // what its set of nodes depends on
    std::uint64_t grounds_at = 0;  // their versions, summed
    Time looked_at;
    bool restricted = false;                     // the engine got a set of nodes
    std::vector<std::string> open;               // which
    std::map<std::string, std::int64_t> closed;  // nodes by the word of the rule that refuses
    Words kept;                                  // why it is kept back, or refused
    Time not_before;                             // after a refusal
    int refusals = 0;
  };

  explicit Harbour(HarbourConfig config) : config_(std::move(config)) {}

  // Which nodes the rules of this room leave to a pod.
  struct Openings {
    std::vector<std::string> open = {};
    std::vector<std::string> shut = {};
    std::map<std::string, std::int64_t> closed = {};  // by the word of the rule
    std::uint32_t grounds = 0;
    std::string waits = {};
  };

  enum class Alarm : std::uint8_t { tell, again, read, claims, series };

  // How devices are named on a node, and who enforces shares.
  struct NodeWay {
    NodeBackend backend = NodeBackend::none;
    bool cdi = false;
    DeviceSource source = DeviceSource::none;
  };

  struct Timer {
    Time at;
    Alarm kind = Alarm::tell;
    std::string id;
    std::string uid;
    auto operator<=>(const Timer&) const = default;
  };

  struct Owner {
    std::string id;
    std::string uid;
    DeedKind kind = DeedKind::bind;
  };

  // events and actions, nodes (harbour.cc)
  void run(core::EventBody body, Time now);
  void act(const core::Action& action, Time now);
  void on_lost(PodRecord& record, Time now);
  void news(std::string_view kind, std::string_view pod, std::string_view node, std::string text);
  void alarm(std::string_view pod, std::string_view node, std::string text);
  PodRecord* find(std::string_view id);
  const PodRecord* find(std::string_view id) const;
  void forget(PodRecord& record, Time now);
  void tell_engine(NodeIndex index, core::Node node, Time now);
  void set_timer(Time at, Alarm kind, const PodRecord& record);
  void fire(Alarm kind, PodRecord& record, Time now);

  // pods as they are told (harbour_pods.cc)
  void waits(PodRecord& record, const Pod& pod, Time now);
  void remember_told(PodRecord& record, const Pod& pod, Time now);
  bool confirms(const PodRecord& record, const Pod& pod) const;
  void lies(PodRecord& record, const Pod& pod, bool ours, Time now);
  Footprint footprint_or_alarm(const Pod& pod);
  void lay_down(PodRecord& record, const Pod& pod, bool ours, Time now);
  void stays(PodRecord& record, const Pod& pod, bool ours, Time now);
  core::GrantAdopted adoption(const PodRecord& record, bool with_devices) const;
  void add_unnamed(const PodRecord& record, core::RequestSpec& spec,
                   core::GrantAdopted& adopted) const;
  void book(PodRecord& record, Time now);
  void unbook(PodRecord& record, Time now);
  void book_all_on(NodeIndex node, Time now);

  // who is tried, and where (harbour_waiting.cc)
  void try_fresh(Time now);
  std::uint64_t versions(std::uint32_t grounds) const;
  Openings room_for(const PodRecord& record) const;
  void keep(PodRecord& record, Words words);
  void submit(PodRecord& record, Time now);
  void leave_engine(PodRecord& record, Time now);
  void look_again(Time now);

  // from the grant to the binding (binding.cc)
  PodName name_of(const PodRecord& record) const;
  void on_granted(PodRecord& record, Time now);
  void start_claims(PodRecord& record, Time now);
  void look_at_claims(Time now);
  void claims_late(PodRecord& record, Time now);
  void give_claims_back(PodRecord& record);
  void queue_binding(PodRecord& record);
  static bool is_withdrawable(const PodRecord& record);
  bool is_whole(const PodRecord& record) const;
  void withdraw(PodRecord& record, std::string_view why, Time now);
  void withdraw_overdrawn(NodeIndex node, Time now);
  void settle_crowded(Time now);
  void stop_way(PodRecord& record, Time now);
  std::uint64_t give_number(const PodRecord& record, DeedKind kind);
  bool still_wanted(const Deed& deed) const;
  void claim_answered(PodRecord& record, const Said& said, Time now);
  void bind_answered(PodRecord& record, const Said& said, Time now);
  void note_bound(const PodRecord& record, Time now);
  void try_later(PodRecord& record, Words words, Time now);
  void read_now(PodRecord& record);
  void read_later(PodRecord& record, Time now, std::optional<Duration> asked);
  void pod_vanished(PodRecord& record, Time now);
  void pod_read(PodRecord& record, const Said& said, Time now);

  // conditions and events (telling.cc)
  static std::uint64_t hash_of(const Words& words);
  static bool is_told(const PodRecord& record);
  Words words_of(const PodRecord& record) const;
  Words words_of_kind(const PodRecord& record) const;
  void tell(PodRecord& record, Time now);
  void condition_answered(PodRecord& record, std::uint64_t number, const Said& said, Time now);
  void say_failed(PodRecord& record, const std::string& note, Time now);
  void write_series(PodRecord& record, const std::string& note, Time now);
  void refresh_series(PodRecord& record, Time now);
  void say_scheduled(const PodRecord& record, Time now);
  std::int64_t unique_us(Time now) const;
  static std::string devices_text(const PodRecord& record);

  HarbourConfig config_;
  std::unique_ptr<core::Engine> engine_;
  Census census_;
  bool ready_ = false;
  std::unordered_map<std::string, PodRecord> pods_;
  std::vector<core::Node> described_;  // by NodeIndex: as the engine was told
  std::vector<NodeWay> node_ways_;     // by NodeIndex
  PlanShop plans_;
  std::set<std::string> fresh_;         // waiting pods to be looked at in settle()
  std::set<std::string> rule_bound_;    // waiting pods whose set of nodes may change
  std::map<std::string, Time> unseen_;  // bound pods that the watch has not shown: since when
  std::set<std::string> preparing_;     // pods whose claims are being provided
  std::set<std::string> to_tell_;
  std::set<NodeIndex> crowded_;      // where a pod of somebody else came
  std::set<NodeIndex> unbooked_on_;  // where pods lost what they had
  std::optional<Time> wake_;         // the engine's
  std::set<Timer> timers_;
  std::deque<core::EventBody> followups_;
  bool running_ = false;
  std::uint64_t changes_ = 0;  // events of the engine that were not time alone

  mutable std::map<std::pair<const PodPlan*, core::Cause>, Words> said_;  // as of said_at_
  mutable std::uint64_t said_at_ = 0;

  std::deque<std::string> bindings_;  // pods in phase granted, in order of decision
  std::deque<Deed> others_;           // readings and claims
  std::deque<Deed> conditions_;
  std::deque<Deed> events_;
  std::uint64_t deeds_ = 0;
  std::unordered_map<std::uint64_t, Owner> outstanding_;
  HarbourFigures figures_;
  std::vector<HarbourNews> news_;
  Tap tap_;
};

}  // namespace berth::kube
