// A clock that stands until it is moved, and a caller that answers what the test says: for what
// is decided here on recorded bytes. What happens on real connections is tested on real ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kube/client/call.h"
#include "kube/client/clock.h"

namespace berth::kube {

class ManualClock : public Clock {
 public:
  Time now() const override { return now_; }
  std::int64_t wall_us() const override { return 1'764'000'000'000'000 + now_.ms() * 1'000; }
  void pass(Duration time) { now_ = now_ + time; }

 private:
  Time now_{1'000'000};
};

class ScriptedCaller : public Caller {
 public:
  struct Asked {
    CallId id = 0;
    Call call = {};
    Answered done = {};
    StreamSink* sink = nullptr;
  };

  CallId call(Call call, Answered done) override {
    asked.push_back({.id = ++last_, .call = std::move(call), .done = std::move(done)});
    return last_;
  }

  CallId stream(StreamCall call, StreamSink& sink) override {
    asked.push_back(
        {.id = ++last_, .call = {.path = std::move(call.path), .lane = call.lane}, .sink = &sink});
    return last_;
  }

  void cancel(CallId id) override {
    cancelled.push_back(id);
    std::erase_if(asked, [id](const Asked& one) { return one.id == id; });
  }

  bool is_cancelled(const Asked& one) const {
    return std::ranges::find(cancelled, one.id) != cancelled.end();
  }

  // The oldest one that waits; the test fails if there is none.
  Asked take() {
    EXPECT_FALSE(asked.empty()) << "nothing was asked";
    if (asked.empty()) return {};
    Asked first = std::move(asked.front());
    asked.pop_front();
    return first;
  }

  static void answer(Asked& one, int status, std::string body = {}) {
    body.reserve(body.size() + kPadding);
    end(one, {.outcome = Outcome::answered, .status = status, .body = body});
  }

  static void end(Asked& one, const Answer& answer) {
    if (one.sink != nullptr) {
      one.sink->on_end(answer);
    } else {
      one.done(answer);
    }
  }

  static void lose(Asked& one, Outcome outcome) {
    end(one, {.outcome = outcome, .problem = "the connection was lost"});
  }

  std::deque<Asked> asked;
  std::vector<CallId> cancelled;

 private:
  CallId last_ = 0;
};

// Lets time pass in small steps and runs what is due.
inline void pass(ManualClock& clock, Timers& timers, Duration time) {
  for (std::int64_t ms = 0; ms < time.count(); ms += 100) {
    clock.pass(Duration(100));
    timers.run_due();
  }
}

}  // namespace berth::kube
