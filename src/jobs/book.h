// Book: the jobs of one daemon, over its leases.
//
//   Book book(service, options);
//   book.submit(party, plan, now);                    // any number of calls and reports: one batch
//   lease::Batch batch = service.take_batch();
//   book.add_to(batch);                               // its records go into the same commit
//   if (store.commit(batch.records)) {
//     service.settle(now);
//     book.settled(batch, now);                       // what changed of leases; may begin a batch
//     for (Deed& deed : book.take_deeds()) …          // start, end, look: what is on disk now
//   } else {
//     service.undo(now);
//     book.undone();
//   }
//
// Two owners, one commit. A job and its lease must not come apart: a job that is on disk without
// its lease would wait for ever, a lease without its job would hold a place for nobody. So the book
// adds its records to the service's batch, and both are undone together. The rule that makes this
// simple: the book calls the service, never the other way, and it learns what became of leases only
// from settled(), when that is on disk. What it concludes from it is the next batch. Deeds come out
// one batch later again: no program is started, and none is told to end, before the disk knows.
//
// undone(): jobs of this batch are forgotten (their answer was a refusal), leases of this batch are
// gone and their jobs are held again until the next advance(); whatever else changed stays to be
// written.
//
// Thread-safety: none; the decision thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "jobs/job.h"
#include "lease/service.h"
#include "local/job.h"

namespace berth::jobs {

struct Range {  // of an array: first … last
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t at_once = 0;  // 0 = all
};

std::size_t bytes_in(const std::vector<std::string>& command,
                     const std::vector<std::string>& environment);

// What is handed in; fields as in Job.
struct Plan {
  std::string name = {};
  std::vector<std::string> command = {};
  std::vector<std::string> environment = {};
  std::string directory = {};
  std::uint32_t umask = 0022;
  std::vector<std::string> after = {};
  AfterRule rule = AfterRule::ok;
  std::optional<Range> array = {};
  Duration grace{30'000};
  lease::Ask ask = {};
};

struct Deed {
  enum class Kind : std::uint8_t {
    start,   // the program of the job, in its folder
    adopt,   // after a restart: what has become of it
    finish,  // tell it to end; `reason` is for the record
    forget,  // delete its folders
  };
  Kind kind = Kind::start;
  std::string job = {};
  std::int64_t attempt = 0;
  std::string reason = {};
  Duration grace{30'000};  // of finish
};

struct BookOptions {
  std::size_t keep_ended = 10'000;          // the oldest are forgotten first
  std::int64_t keep_ms = 7 * 86'400'000LL;  // how long what has ended can be read
  std::size_t max_live_per_owner = 20'000;
  // Of the commands and environments of jobs that are not over; what is over keeps none.
  std::size_t max_bytes_per_owner = std::size_t{256} * 1024 * 1024;
  // Whether this daemon may run programs as this user.
  std::function<bool(std::uint32_t uid)> may_run_as = {};
};

class Book {
 public:
  Book(lease::Service& service, BookOptions options)
      : service_(service), options_(std::move(options)) {}

  // Before anything else, after the service's own. Errors: invalid_argument naming the record.
  Result<void> restore(const std::vector<lease::Record>& records, lease::Now now);

  // One job, or every element of an array.
  lease::Outcome<std::vector<const Job*>> submit(const lease::Party& party, const Plan& plan,
                                                 lease::Now now);
  // A job or a whole array. What is over stays as it is.
  lease::Outcome<std::vector<const Job*>> cancel(const lease::Party& party, std::string_view id,
                                                 lease::Now now);
  lease::Outcome<std::vector<const Job*>> read(const lease::Party& party,
                                               std::string_view id) const;
  std::vector<const Job*> list(const lease::Party& party, bool with_ended) const;
  const Job* find(std::string_view id) const;

  // What was found about its process by a deed, or by looking; an error is that it cannot be run.
  void report(std::string_view id, std::int64_t attempt, const Result<local::JobStatus>& status,
              lease::Now now);

  // Renewals, and what is forgotten in time.
  void tick(lease::Now now);

  bool dirty() const { return !dirty_.empty(); }
  // Ids of jobs that this batch changed: who waits for them is told between commit and settled().
  const std::set<std::string>& changed() const { return dirty_; }
  void add_to(lease::Batch& batch);
  void settled(const lease::Batch& batch, lease::Now now);
  void undone();
  std::vector<Deed> take_deeds() { return std::exchange(ready_, {}); }

 private:
  Job* find_mut(std::string_view id);
  lease::Outcome<void> check(const lease::Party& party, const Plan& plan);
  void touch(const Job& job) { dirty_.insert(job.id); }
  void become(Job& job, State state, std::string reason);
  void over(Job& job, State state, std::string reason, lease::Now now);
  void advance(lease::Now now);
  // What held jobs wait for, looked up once in a round of advance(): arrays may be large.
  struct Round {
    struct Before {
      const Job* open = nullptr;    // the first that is not over
      const Job* failed = nullptr;  // the first before it that is over and has not succeeded
    };
    std::map<std::string, Before, std::less<>> before;       // by id of a job or an array
    std::map<std::string, std::int64_t, std::less<>> going;  // by array
  };
  // Empty: it may go. Else why not; `never` if it never will.
  std::string held_by(const Job& job, Round& round, bool& never) const;
  lease::Outcome<void> reserve(Job& job, lease::Now now);
  void follow(Job& job, lease::Now now);
  void begin(Job& job);
  void finish(Job& job, std::string why);
  void conclude(Job& job, const local::JobState& end, lease::Now now);
  void again(Job& job, std::string reason, lease::Now now);
  void give_back(Job& job, lease::Now now);
  void forget_old(lease::Now now);
  Job& add(Job job);
  void uncount(const Job& job);
  void forget(const std::string& id);
  std::vector<const Job*> named(std::string_view id) const;

  lease::Service& service_;
  BookOptions options_;
  std::map<std::pair<std::uint64_t, std::int64_t>, Job> jobs_;  // by number and index
  std::map<std::string, std::pair<std::uint64_t, std::int64_t>, std::less<>> by_id_;
  std::map<std::string, std::string, std::less<>> by_lease_;  // of jobs that are not over
  // By number and index, so that who was handed in first goes first.
  std::set<std::pair<std::uint64_t, std::int64_t>> held_;
  std::set<std::string> live_;
  std::set<std::pair<std::int64_t, std::string>> ended_;  // by time
  std::map<std::string, std::size_t> live_of_;
  std::map<std::string, std::size_t> bytes_of_;  // likewise
  std::set<std::string> dirty_;
  std::set<std::string> created_;   // in this batch
  std::set<std::string> reserved_;  // in this batch
  std::set<std::string> erased_;
  std::vector<Deed> deeds_;  // of this batch
  std::vector<Deed> ready_;
  std::uint64_t next_number_ = 1;
  bool advance_due_ = false;
  Time renew_at_;
};

}  // namespace berth::jobs
