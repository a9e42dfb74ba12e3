// Trial: what a pass would do with a waiting workload if others were gone, tried on the engine's
// own state and taken back.
//
//   Trial trial(impl, waiting);
//   trial.end(victim);                                  // as if its grant had ended
//   if (trial.pass() == Trial::Answer::starts) …        // all that wait had their turn before it
//
// The pass is played as it would happen: in the order between and within queues, everybody who
// comes before the workload takes the place that it would get, with the reservations of those that
// keep waiting. What cannot be foreseen without making it happen (a claim that others would make, a
// promise that would be moved, a reservation that would come to lie where the workload stands) is
// answered by `unknown`, so that `starts` can be relied on. Leaving the scope leaves nothing but
// steps counted by the index.
//
// Thread-safety: none; works on one engine's state between two events.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/engine/engine_impl.h"
#include "core/engine/scratch.h"

namespace berth::core {

class Trial {
 public:
  enum class Answer : std::uint8_t { starts, waits, unknown };

  // `who` waits, as a task, a later member or the head of a gang.
  Trial(Engine::Impl& engine, WorkloadId who);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // So much memory of the device that is in use now is free. Before anything else.
  void free_memory(DeviceId device, std::int64_t bytes);
  // Its grant ends. `comes_back`: it waits again with its age, as evicted work does.
  void end(WorkloadId workload, bool comes_back);
  // All holders of the gang have ended, and it does not come back: its other members go with it.
  void end_rest_of(WorkloadId gang);
  // Engine time passes.
  void wait_until(Time time) { engine_.now = time; }
  // All that wait have their turn, in order. Call it after each change, as the engine does. `last`:
  // nothing is asked of the trial afterwards, so it ends where it is decided about `who`.
  Answer pass(bool last);
  // The earliest instant at which something that a pass of this trial started may end.
  std::optional<Time> first_new_end() const { return first_new_end_; }
  std::int64_t steps() const { return steps_; }

 private:
  enum class Turn : std::uint8_t { started, stays, unknown };

  struct Key {
    std::int64_t priority = 0;
    Time queued_at;
    std::string_view uid;
    bool operator<(const Key& other) const;
  };

  using Line = std::vector<WorkloadId>;  // the last is the first in turn

  std::set<KindId> woken();
  std::map<QueueId, Line> lines();
  void ask_no_more(WorkloadId workload);
  bool waits_no_more(WorkloadId id) const;
  Key key_of(WorkloadId id) const;
  QueueId next_leaf(const std::map<QueueId, Line>& lines) const;
  Turn try_one(WorkloadId id);
  Turn try_task(WorkloadId id);
  Turn try_gang(WorkloadId head);
  Turn stays(WorkloadId id);
  void started(WorkloadId id, std::size_t mark);
  void drop_reservations_of(WorkloadId id);
  bool would_be_promised(WorkloadId id, const Selection& now_best);
  bool would_claim(WorkloadId id);
  bool promises_would_move();
  bool others_wait_as_gangs() const;
  void expect_reservations();
  void expect_reservation(WorkloadId id);
  void expect_reservation_of_task(WorkloadId id);
  void expect_reservation_of_gang(WorkloadId head);
  bool is_kept_from(std::size_t mark) const;
  Answer play(std::map<QueueId, Line>& lines);

  Engine::Impl& engine_;
  WorkloadId who_;
  Time now_;
  StageBook stages_;
  std::int64_t search_budget_;
  std::map<PoolId, Engine::Impl::GangReservation> gang_reservations_;
  std::map<WorkloadId, std::pair<GangShortage, Charge>> gangs_;  // as they were
  Hypothesis freed_;
  Scratch scratch_;
  std::vector<WorkloadId> back_;       // that wait again
  std::set<WorkloadId> asks_no_more_;  // and those that do not
  std::set<WorkloadId> ended_gangs_;
  std::set<WorkloadId> placed_;
  std::set<NodeId> touched_;   // where anything left or was placed
  std::set<NodeId> improved_;  // where something left since the last pass
  std::set<QueueId> lighter_;  // that hold less than at the last pass
  bool more_capacity_ = false;
  std::vector<WorkloadId> stayed_;        // in this pass
  std::map<NodeId, std::uint64_t> kept_;  // device places that others would reserve in the pass
  bool all_kept_ = false;                 // … or any
  bool last_ = false;
  bool unsure_ = false;  // of the next pass
  std::optional<Time> first_new_end_;
  int passes_ = 0;
  int claims_asked_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace berth::core
