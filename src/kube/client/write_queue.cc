#include "kube/client/write_queue.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

namespace berth::kube {

namespace {

constexpr std::string_view kReplaced = "a later write of the same object took its place";
constexpr std::string_view kDropped = "too many events wait: this one was dropped";
constexpr std::size_t kMostBuckets = 10'000;

class Bucket {
 public:
  Bucket(const BucketRule& rule, Time now) : tokens_(rule.size), filled_(now) {}

  void fill(const BucketRule& rule, Time now) {
    const std::int64_t ticks = (now - filled_).count() / rule.refill.count();
    if (ticks <= 0) return;
    tokens_ = std::min<std::uint64_t>(rule.size, tokens_ + static_cast<std::uint64_t>(ticks));
    filled_ = filled_ + rule.refill * ticks;
  }

  bool full(const BucketRule& rule) const { return tokens_ == rule.size; }
  bool empty() const { return tokens_ == 0; }
  void take() { --tokens_; }
  Duration until_next(const BucketRule& rule, Time now) const {
    return filled_ + rule.refill - now;
  }

 private:
  std::uint64_t tokens_;
  Time filled_;
};

}  // namespace

struct WriteQueue::Impl {
  using Waiting = std::list<Write>;

  Impl(Caller& caller_in, Timers& timers_in, std::function<bool()> may_write_in,
       WriteQueueOptions options_in)
      : caller(caller_in),
        timers(timers_in),
        may_write(std::move(may_write_in)),
        options(options_in),
        in_all(options.events_in_all, timers_in.clock().now()) {}

  ~Impl() {
    timers.cancel(timer);
    timers.cancel(refill_timer);
    for (const auto& [id, rank] : sent)
      caller.cancel(id);
  }

  Waiting& of(WriteRank rank) { return waiting[static_cast<std::size_t>(rank)]; }
  void submit(Write write);
  void submit_condition(Write write);
  void drop_condition(const std::string& object);
  void submit_event(Write write);
  bool event_allowed(const std::string& object);
  void soon();
  void pump();
  bool send_from(WriteRank rank);
  void send(Write write);
  void refuse(Write& write, std::string_view why);
  void tell_refused();

  Caller& caller;
  Timers& timers;
  std::function<bool()> may_write;
  WriteQueueOptions options;
  std::array<Waiting, 3> waiting;
  std::unordered_map<std::string, Waiting::iterator> conditions;  // by object
  std::unordered_map<std::string, Bucket> buckets;                // of events, by object
  Bucket in_all;
  std::unordered_map<CallId, WriteRank> sent;
  std::size_t events_sent = 0;  // in flight
  std::vector<std::pair<Answered, std::string_view>> refused;
  Timers::Id timer = 0;
  Timers::Id refill_timer = 0;
  WriteFigures figures;
};

void WriteQueue::Impl::submit(Write write) {
  switch (write.rank) {
    case WriteRank::binding:
      drop_condition(write.object);
      of(WriteRank::binding).push_back(std::move(write));
      break;
    case WriteRank::condition: submit_condition(std::move(write)); break;
    case WriteRank::event: submit_event(std::move(write)); break;
  }
  soon();
}

// The latest of an object takes the place of the one that waits, in its place of the queue.
void WriteQueue::Impl::submit_condition(Write write) {
  const auto found = conditions.find(write.object);
  if (found != conditions.end()) {
    ++figures.superseded;
    refuse(*found->second, kReplaced);
    *found->second = std::move(write);
    return;
  }
  Waiting& queue = of(WriteRank::condition);
  queue.push_back(std::move(write));
  conditions.emplace(queue.back().object, std::prev(queue.end()));
}

void WriteQueue::Impl::drop_condition(const std::string& object) {
  const auto found = conditions.find(object);
  if (found == conditions.end()) return;
  ++figures.superseded;
  refuse(*found->second, kReplaced);
  of(WriteRank::condition).erase(found->second);
  conditions.erase(found);
}

void WriteQueue::Impl::submit_event(Write write) {
  if (!event_allowed(write.object)) {
    ++figures.events_dropped;
    refuse(write, kDropped);
    return;
  }
  Waiting& queue = of(WriteRank::event);
  queue.push_back(std::move(write));
  if (queue.size() <= options.events_waiting) return;
  ++figures.events_dropped;
  refuse(queue.front(), kDropped);
  queue.pop_front();
}

// Takes a token of the object's bucket. Full buckets are as good as none and are swept.
bool WriteQueue::Impl::event_allowed(const std::string& object) {
  const Time now = timers.clock().now();
  const BucketRule& rule = options.events_per_object;
  if (buckets.size() >= kMostBuckets) {
    std::erase_if(buckets, [&](const auto& entry) {
      Bucket filled = entry.second;
      filled.fill(rule, now);
      return filled.full(rule);
    });
  }
  Bucket& bucket = buckets.try_emplace(object, rule, now).first->second;
  bucket.fill(rule, now);
  if (bucket.empty()) return false;
  bucket.take();
  return true;
}

void WriteQueue::Impl::soon() {
  if (timer != 0) return;
  timer = timers.after(Duration(0), [this] {
    timer = 0;
    pump();
  });
}

void WriteQueue::Impl::pump() {
  tell_refused();
  while (sent.size() < options.window &&
         (send_from(WriteRank::binding) || send_from(WriteRank::condition) ||
          send_from(WriteRank::event))) {
  }
  tell_refused();
}

// Sends the first that waits in a rank. False: there is none, or it has to wait.
bool WriteQueue::Impl::send_from(WriteRank rank) {
  Waiting& queue = of(rank);
  if (queue.empty()) return false;
  if (rank == WriteRank::event) {
    if (events_sent >= options.events_window) return false;
    const Time now = timers.clock().now();
    in_all.fill(options.events_in_all, now);
    if (in_all.empty()) {
      timers.cancel(refill_timer);
      refill_timer = timers.after(in_all.until_next(options.events_in_all, now), [this] {
        refill_timer = 0;
        pump();
      });
      return false;
    }
    in_all.take();
  }
  Write write = std::move(queue.front());
  if (rank == WriteRank::condition) conditions.erase(write.object);
  queue.pop_front();
  if (!may_write()) {
    ++figures.fenced;
    refuse(write, kNotOurs);
    return true;
  }
  send(std::move(write));
  return true;
}

void WriteQueue::Impl::send(Write write) {
  const WriteRank rank = write.rank;
  ++figures.sent[static_cast<std::size_t>(rank)];
  if (rank == WriteRank::event) ++events_sent;
  write.call.may_start = may_write;  // what is tried again, or waits for a connection, asks again
  const auto own = std::make_shared<CallId>(0);
  *own = caller.call(std::move(write.call),
                     [this, own, rank, done = std::move(write.done)](const Answer& answer) mutable {
                       sent.erase(*own);
                       if (rank == WriteRank::event) --events_sent;
                       soon();
                       if (done) done(answer);
                     });
  sent.emplace(*own, rank);
}

// Its callback is kept for later: nobody is called back inside submit().
void WriteQueue::Impl::refuse(Write& write, std::string_view why) {
  if (write.done) refused.emplace_back(std::move(write.done), why);
}

void WriteQueue::Impl::tell_refused() {
  while (!refused.empty()) {
    for (auto& [done, why] : std::exchange(refused, {})) {
      done({.outcome = Outcome::not_sent, .problem = why});
    }
  }
}

WriteQueue::WriteQueue(Caller& caller, Timers& timers, std::function<bool()> may_write,
                       WriteQueueOptions options)
    : impl_(std::make_unique<Impl>(caller, timers, std::move(may_write), options)) {}

WriteQueue::~WriteQueue() = default;

void WriteQueue::submit(Write write) { impl_->submit(std::move(write)); }

void WriteQueue::forget(const std::string& object) {
  if (const auto found = impl_->conditions.find(object); found != impl_->conditions.end()) {
    impl_->of(WriteRank::condition).erase(found->second);
    impl_->conditions.erase(found);
  }
  std::erase_if(impl_->of(WriteRank::event),
                [&](const Write& write) { return write.object == object; });
}

WriteFigures WriteQueue::figures() const {
  WriteFigures figures = impl_->figures;
  figures.in_flight = impl_->sent.size();
  for (const auto& queue : impl_->waiting)
    figures.waiting += queue.size();
  return figures;
}

}  // namespace berth::kube
