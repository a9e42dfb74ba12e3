// Session: one engine under a scenario. It delivers events, keeps what the engine answered, wakes
// it when it asked to be woken, and has its books recomputed. It is the harbour that carries out
// evictions: what is told to leave is gone after the grace; something restartable then waits again
// with its old age.
//
// verify() costs as much as all workloads that are known, so it runs after every event while there
// are at most kVerifyEach of them, and beyond that where verify_now() is called: after each step
// and at every expect. A scenario of thousands of workloads stays linear so. Invariant: time never
// goes back. Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/engine/engine.h"
#include "scenario/report.h"
#include "scenario/world.h"

namespace berth::scenario {

class Session {
 public:
  static constexpr std::size_t kVerifyEach = 300;

  static constexpr std::size_t kMostEvictions = 100'000;  // of one step; more never come to rest

  struct Eviction {
    std::string uid;
    core::Evicted::Rule rule = core::Evicted::Rule::guarantee;
    std::string beneficiary;  // empty: nobody
    std::string moves_to;     // a node; empty: nowhere
    std::string text;
  };

  // What the engine answered since the step began.
  struct Answers {
    std::vector<std::string> decisions;  // "granted train"
    std::vector<std::string> notices;    // "overuse train"
    std::vector<std::string> refusals;   // texts of refused events
    std::vector<Eviction> evictions;
    std::int64_t actions = 0;  // without wake-ups
  };

  // `grace`: from the word to leave until the work is gone; 0 = before the next event.
  static Result<Session> create(core::EngineConfig config, Duration grace = Duration{0});

  core::Engine& engine() { return *engine_; }

  const core::Engine& engine() const { return *engine_; }

  World& world() { return world_; }

  const World& world() const { return world_; }

  Time now() const { return now_; }

  const Answers& answers() const { return answers_; }

  const std::map<std::string, core::Cause>& ended() const { return ended_; }

  // The first difference that verify() found; the session must stop then.
  const std::optional<std::string>& broken() const { return broken_; }

  std::vector<TranscriptLine>& transcript() { return transcript_; }

  // Answers carry their verdict as JSON from now on.
  void keep_verdicts(bool keep) { with_verdicts_ = keep; }

  void begin_step() { answers_ = {}; }

  // Says what is about to be done.
  void note(std::string text);
  void apply(core::EventBody body);
  // Recomputes the books if something happened since they were last recomputed.
  void verify_now();
  // Lets time pass, waking the engine whenever it asked for it. Requires: to >= now().
  void advance(Time to);
  // A new engine that knows the nodes alone, and then what tell_again() tells it: what held grants
  // as found running, what waited as new, in the order in which they came first. Errors: a gang is
  // known, whose members nobody could tell apart.
  Result<void> start_anew();
  void tell_again();
  // Rounds without news; the actions they cause, as texts. None is right.
  std::vector<std::string> settle(int rounds);

 private:
  // Work that was told to leave.
  struct Leaving {
    std::string uid;
    std::uint64_t grant = 0;
    bool restarts = false;
  };

  Session(core::EngineConfig config, std::unique_ptr<core::Engine> engine, Duration grace)
      : config_(std::move(config)), engine_(std::move(engine)), grace_(grace) {}

  void deliver(core::EventBody body);
  // What should be gone by now goes.
  void carry_out_evictions();
  bool restarts(const std::string& uid) const;
  std::string take_eviction(const core::Evicted& evicted);
  // The action as a text, empty for a wake-up.
  std::string take(const core::Action& action);
  std::string verdict_of(const core::Action& action) const;
  std::string take_notice(const core::Notice& notice);
  std::string decide(const char* what, core::WorkloadId workload, std::string_view rest);
  std::string grant_text(core::WorkloadId workload) const;

  core::EngineConfig config_;
  std::unique_ptr<core::Engine> engine_;
  std::vector<std::string> came_;            // every workload, in the order in which they came
  std::vector<core::EventBody> told_again_;  // after a new start
  World world_;
  Time now_;
  Duration grace_;
  std::set<std::int64_t> wakes_;
  std::multimap<Time, Leaving> leaving_;  // of one time, in the order in which they were told
  Answers answers_;
  std::map<std::string, core::Cause> ended_;
  std::optional<std::string> broken_;
  std::size_t known_ = 0;  // workloads that came and have not ended
  bool unverified_ = false;
  std::vector<TranscriptLine> transcript_;
  bool with_verdicts_ = false;
};

}  // namespace berth::scenario
