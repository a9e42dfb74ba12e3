// Service: the leases of one daemon, over one engine.
//
//   TRY(auto service, Service::create(config, witness, now));
//   TRY(Answer answer, service->reserve(party, ask, now));
//   …
//   const Batch batch = service->take_batch();     // what this made of the books
//   if (!store.commit(batch.records)) service->undo(now);    // nothing of it was said to anybody
//   else service->settle();
//
// It turns calls and reports into engine events and engine actions into leases, and owns what the
// engine does not know: keys, owners, renewals, proofs of life, ends that wait for a process. It
// reads no clock, opens no file and starts no thread. A call that fails changes nothing.
//
// Durability: every change of a lease is in the next batch. Until the batch is settled nothing of
// it may leave the daemon. undo() takes back what the batch granted, forgets what it created, keeps
// the rest for the next batch, and grants nothing more until one was settled.
//
// Invariants (check()): a lease holds in the engine's ledger iff its state says so; every key of a
// principal names at most one lease; every due time is in the timers.
// Thread-safety: none; one decision thread.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/engine/engine.h"
#include "gpu/source.h"
#include "lease/lease.h"
#include "local/attribution.h"

namespace berth::lease {

struct Now {
  Time time;
  std::int64_t wall = 0;  // ms since 1970, shown only
};

// What to do about a lease that uses more than its claim (B29).
enum class OverusePolicy : std::uint8_t { report, block, kill };

// What to do about leases that use more than their request while somebody waits for that room.
enum class BurstPolicy : std::uint8_t { report, end };

struct ServiceConfig {
  core::EngineConfig engine;
  std::optional<core::QueueConfig> queues;
  std::string node;             // of this machine
  std::string journal_id = {};  // tells this journal's ids from another's; one that was kept wins
  Duration confirm{300'000};    // G
  Duration ttl{120'000};        // T
  Duration silence{300'000};    // W
  Duration forced{3'600'000};   // F; 0 = never
  Duration age_memory{3'600'000};   // A
  Duration keep_ended{86'400'000};  // D
  Duration grace{30'000};           // from an eviction's notice to its end
  std::size_t max_waiting_per_owner = 10'000;
  std::size_t max_ended = 100'000;  // the oldest are forgotten first
  bool gpu_enabled = true;
  bool ledger_only = false;  // grant on declared capacity while no source answers (B23)
  OverusePolicy overuse = OverusePolicy::report;
  Duration burst_grace{60'000};  // how long a burst may keep a waiting claim from its room
  BurstPolicy burst = BurstPolicy::report;
};

// What the service asks of the machine it runs on.
class Witness {
 public:
  virtual ~Witness() = default;
  // As local::prove().
  virtual Result<local::Proof> prove(const local::Confirmation& confirmation) = 0;
  virtual bool alive(const local::Proof& proof) = 0;
  // One for each process of the device, in their order: the lease it belongs to, or nothing.
  virtual std::vector<local::Attribution> attribute(std::span<const local::Proof> proofs,
                                                    std::span<const gpu::ProcessUse> uses) = 0;
  // How the limit of a lease with this proof is held.
  virtual bool guarded(const local::Proof& proof) = 0;
};

// A refusal of leases.md 3.5, as a value.
struct Refusal {
  int status = 400;
  std::string code = {};
  std::string field = {};
  std::string value = {};
  std::string message = {};
  std::string hint = {};
  Reason reason = Reason::none;
  std::optional<std::int64_t> largest_mib = {};  // never: what would be possible at most
  std::optional<int> retry_after_s = {};
};

template <typename T>
using Outcome = std::expected<T, Refusal>;

struct Reserved {
  const Lease* lease = nullptr;
  bool known = false;  // the key was known: nothing new
};

struct Device {
  std::string uuid = {};
  std::string node = {};
  std::string model = {};
  int index = 0;
  bool mig = false;
  bool mig_parent = false;  // in MIG mode: its instances are offered, it is not
  std::string parent = {};  // UUID of the GPU that a MIG instance is cut from
  bool drained = false;
  std::string health = {};  // "ok", "unhealthy", "lost"
  std::string mode = {};    // "free", "exclusive", "time-slicing", "sm-sharing"
  std::string reason = {};  // why nothing new comes here; empty = open
  std::optional<std::int64_t> total_mib = {};
  std::optional<std::int64_t> used_mib = {};
  std::int64_t reserve_mib = 0;
  std::int64_t foreign_mib = 0;
  std::int64_t committed_mib = 0;
  std::int64_t headroom_mib = 0;
  std::int64_t promised_mib = 0;  // sum of claims
  bool attributed = false;
  std::optional<std::int64_t> sample_age_ms = {};
  std::string problem = {};
  std::vector<const Lease*> leases = {};
  std::vector<local::Attribution> foreign = {};  // processes that no lease explains
};

struct Record {
  std::string kind;
  std::string id;
  std::optional<std::string> body;
};

// Something worth a line in the log and a count in the metrics.
struct Event {
  std::string_view kind;  // "granted", "lost", "overuse", "clock-skew", …
  std::string lease;
  std::string device;
  std::string text;
};

struct Batch {
  std::vector<Record> records;
  std::vector<std::string> changed;  // ids of leases whose version rose, in that order
  std::vector<Event> events;
};

struct Position {
  std::int64_t index = 0;  // 1 = next
  std::int64_t of = 0;
};

struct Filter {
  std::vector<State> states;  // empty: any
  std::string owner;
  std::string key_prefix;
  std::string device;
  std::string node;
  std::string queue;
};

class Service {
 public:
  // Errors: those of Engine::create and of the queues.
  static Result<std::unique_ptr<Service>> create(ServiceConfig config, Witness& witness, Now now);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // --- a restart, before anything else -------------------------------------------------------
  // Takes over what a store kept. Errors: invalid_argument naming the record.
  Result<void> restore(const std::vector<Record>& records, Now now);

  // --- calls ---------------------------------------------------------------------------------
  Outcome<Reserved> reserve(const Party& party, Ask ask, Now now, std::string_view supersedes = {});
  // What reserve() would say, with nothing booked. The verdict in full.
  Outcome<core::Verdict> dry_run(const Party& party, const Ask& ask, Now now) const;
  Outcome<const Lease*> confirm(const Party& party, std::string_view id,
                                const local::Confirmation& proof, Now now);
  Outcome<const Lease*> renew(const Party& party, std::string_view id, Now now);
  struct Release {
    const Lease* lease = nullptr;  // null: unknown
    bool released = false;         // this call ended it or began to
  };
  Outcome<Release> release(const Party& party, std::string_view id, bool if_gone,
                           std::string_view reason, Now now);
  Outcome<Release> release_key(const Party& party, std::string_view key, bool if_gone,
                               std::string_view reason, Now now);
  Outcome<const Lease*> read(const Party& party, std::string_view id, Now now);
  // The owner keeps a stream or a long poll open, or closes it.
  void watching(std::string_view id, bool open, Now now);
  // Waiting first in queue order, then by id.
  std::vector<const Lease*> list(const Party& party, const Filter& filter) const;
  Outcome<core::Verdict> explain(const Party& party, std::string_view id) const;
  Outcome<void> drain(const Party& party, std::string_view uuid, bool drained, Now now);

  // --- the world -----------------------------------------------------------------------------
  // Nodes of the machine's own: CPU, RAM and labels of what the reports' devices lie in.
  void set_node(const core::Node& node, Now now);
  void observe(const gpu::Report& report, Now now);
  // A process that a proof names has ended.
  void process_ended(std::string_view id, Now now);
  void tick(Now now);
  std::optional<Time> next_due() const;
  // Bytes by lease and device that the guard's accounts show now. A use above what the last sample
  // said counts at once, and what this batch granted on room that is not there waits again.
  using Uses =
      std::map<std::string, std::map<std::string, std::int64_t>>;  // device -> lease -> bytes
  void count_uses(const Uses& uses, Now now);
  bool granted_in_batch() const { return !granted_.empty(); }
  // Takes over what may change while it runs: times of leases, grace times, policies, gpu_enabled,
  // how many may wait and are kept. Of the engine's figures the placement policy alone.
  void adjust(const ServiceConfig& wanted, Now now);
  // Replaces the quota tree. Errors: those of the queues; the old ones stay.
  Result<void> set_queues(core::QueueConfig queues, Now now);

  // --- after a batch -------------------------------------------------------------------------
  Batch take_batch();
  bool dirty() const { return !dirty_.empty() || !events_.empty(); }
  void settle(Now now);
  void undo(Now now);
  bool writable() const { return writable_; }
  bool reconciled() const { return reconciled_; }
  bool ready() const { return reconciled_ && writable_; }
  // Why nothing at all is granted; empty when that is not so.
  std::string held_because() const;

  // --- questions -----------------------------------------------------------------------------
  const Lease* find(std::string_view id) const;
  // Its place in its queue; `verdict` is what verdict() says of it.
  std::optional<Position> position(const Lease& lease, const core::Verdict& verdict) const;
  std::optional<core::Verdict> verdict(const Lease& lease) const;  // in short; of what waits
  // Leases whose use above their request keeps this one waiting, the largest first: "l-1 uses 300
  // MiB above its request". Empty when that is not what it waits for.
  std::string bursts_in_the_way(const Lease& lease) const;
  std::int64_t use_bytes(const Lease& lease) const;  // measured, most on one device; 0 = not known
  std::vector<Device> devices(Now now) const;
  const core::Engine& engine() const { return *engine_; }
  const ServiceConfig& config() const { return config_; }
  // Those that wait or hold, by number.
  const std::set<std::uint64_t>& live() const { return live_; }
  // Whose ids the leases' are: drawn once per journal, told to programs as BERTH_JOURNAL_ID.
  const std::string& journal_id() const { return config_.journal_id; }
  const Lease& lease(std::uint64_t number) const { return leases_.at(number); }
  const std::map<std::uint64_t, Lease>& leases() const { return leases_; }
  std::vector<local::Proof> proofs() const;
  // Errors: internal, the first invariant that does not hold.
  Result<void> check() const;

 private:
  struct Seen {  // of a device, from the last report
    gpu::DeviceReport report;
    Time at;          // never in the future
    Time sampled_at;  // as the sample says
    bool present = true;
    bool sampled = false;
    bool lost = false;
    bool skewed = false;  // its stamps are in the future or go backwards; said once
    std::vector<local::Attribution> owners;
    std::optional<Time> burst_since;  // since when a burst keeps a waiting claim out
  };

  Service(ServiceConfig config, Witness& witness);

  // events and actions
  void run(core::EventBody body, Now now);
  void flush(Now now);
  void act(const core::Action& action, Now now);
  void on_granted(Lease& lease, Now now);
  void on_retracted(Lease& lease, const core::Retracted& action, Now now);
  void on_evicted(Lease& lease, const core::Evicted& action, Now now);
  void on_verdict(Lease& lease, core::Outcome outcome, core::Cause cause, Now now);
  template <typename Each>
  void each_on(std::string_view uuid, const Each& each);  // leases that hold on the device
  void on_notice(const core::Notice& notice);
  void set_hold(Now now);

  // leases
  Lease& add(Lease lease);
  Lease* find_mut(std::string_view id);
  Lease* by_key(std::string_view principal, std::string_view key);
  void changed(Lease& lease);        // version rises, written down, watchers told
  void touched(const Lease& lease);  // written down only
  void set_due(Lease& lease);
  void become(Lease& lease, State state, Reason reason, std::string message = {});
  void end(Lease& lease, State state, Reason reason, std::string message, Now now);
  void end_or_wait(Lease& lease, bool if_gone, Reason reason, std::string message, Now now);
  void forget(std::uint64_t number);
  void count_waiting(const Lease& lease, int by);
  core::Workload workload_of(const Lease& lease) const;
  Outcome<Lease*> owned(const Party& party, std::string_view id);
  Refusal never(const Lease& lease) const;
  Refusal bad_queue(std::string_view name) const;
  static Refusal unwritable();
  Outcome<Reserved> submitted(Lease& lease, Now now);
  bool possible(const Party& party, const Ask& ask, Now now) const;
  std::optional<Refusal> unwelcome(const Party& party, const Ask& ask) const;
  void supersede(const Party& party, std::string_view prefix, std::string_view key, Now now);
  void renewed(Lease& lease, Now now);
  Reason waiting_reason(core::Cause cause) const;
  void refresh_reasons(Now now);
  void fill_grant(Lease& lease);
  void due(Lease& lease, Now now);
  void forget_surplus();

  void adopt(Lease& lease, Now now);
  Result<std::unique_ptr<core::Engine>> copy_engine(Now now) const;

  // devices
  void merge_nodes(const gpu::Report& report, Now now);
  void put_node(core::Node node, Now now);
  void observe_device(const gpu::DeviceReport& report, Now now);
  void lose_device(const std::string& uuid, std::string_view why, Now now);
  void check_overuse(const std::string& uuid, Now now);
  void note_overuse(Lease& lease, Now now);
  void check_ends(Now now);
  void look_for_guard(Lease& lease);
  void check_guards();
  void end_without_processes(Lease& lease, Now now);
  void check_bursts(Now now);
  void wait_again(Lease& lease, std::string_view why, Now now);
  struct Burst {
    std::uint64_t number = 0;
    std::int64_t over = 0;  // bytes above its request
  };
  std::vector<Burst> bursts_on(core::DeviceId device) const;
  bool would_fit_without(const Lease& lease, core::DeviceId device) const;
  static core::DeviceObserved observation(const Seen& seen);
  Device device_row(const core::Node& node, const core::Device& device, Now now) const;

  ServiceConfig config_;
  Witness& witness_;
  std::unique_ptr<core::Engine> engine_;
  std::map<std::uint64_t, Lease> leases_;
  std::unordered_map<std::string, std::uint64_t> by_id_;
  std::map<std::pair<std::string, std::string>, std::uint64_t, std::less<>> by_key_;
  std::map<std::string, std::size_t> waiting_of_;   // principal -> how many wait
  std::map<std::string, std::int64_t> waiting_in_;  // the same by queue
  std::set<std::pair<Time, std::uint64_t>> due_;
  std::map<std::uint64_t, Time> due_of_;
  std::map<std::uint64_t, int> watchers_;
  // Confirmed, and no guard seen yet: a program loads it a moment after it was started. How many
  // samples look for it still.
  std::map<std::uint64_t, int> unguarded_;
  // Have no living confirmed process (it ended, or a cgroup or pod was confirmed), but had others:
  // nobody tells of the end of those, so samples look.
  std::set<std::uint64_t> peopled_;
  std::map<std::string, std::map<std::uint64_t, std::int64_t>> overusing_;  // told, by device
  std::set<std::uint64_t> ended_;                                           // oldest first
  std::set<std::uint64_t> live_;
  std::uint64_t next_number_ = 1;
  std::uint64_t numbers_promised_ = 0;  // written down as given

  std::map<std::string, core::Node> nodes_;  // as the engine has them
  std::map<std::string, Seen> seen_;         // by UUID
  std::set<std::string> drained_;
  std::optional<Time> last_report_;
  bool source_up_ = false;
  std::string why_down_;
  bool reconciled_ = false;
  bool writable_ = true;
  bool held_ = false;

  std::set<std::pair<std::string, std::string>> dirty_;  // kind and id of what is to be written
  std::vector<core::EventBody> followups_;               // what an action makes necessary
  std::vector<std::uint64_t> rose_;                      // versions that rose in this batch
  std::set<std::uint64_t> created_;                      // in this batch
  std::set<std::uint64_t> granted_;                      // in this batch
  std::vector<Event> events_;
};

}  // namespace berth::lease
