#include "kube/client/lease.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "json/value.h"
#include "kube/client/reflector.h"
#include "kube/client/text.h"

namespace berth::kube {

namespace {

enum class State : std::uint8_t { stopped, following, taking, leading, releasing, over };

}  // namespace

struct LeaderLease::Impl final : ObjectSink {
  Impl(Caller& caller_in, Timers& timers_in, Chance& chance_in, LeaseOptions options_in,
       LeaseListener& listener_in)
      : caller(caller_in),
        timers(timers_in),
        clock(timers_in.clock()),
        chance(chance_in),
        options(std::move(options_in)),
        listener(listener_in),
        collection(fmt::format("/apis/coordination.k8s.io/v1/namespaces/{}/leases",
                               url_encoded(options.namespace_name))),
        path(collection + "/" + url_encoded(options.name)),
        watcher(caller_in, timers_in, chance_in,
                {.path = collection,
                 .selector = "fieldSelector=metadata.name%3D" + url_encoded(options.name)},
                *this) {}

  ~Impl() override { quiet(); }

  // Of the watch.
  void on_object(const ObjectEvent& event) override;
  void on_synced() override {}
  void on_trouble(std::string_view what) override { say(what); }

  void read();
  void read_ended(const Answer& answer);
  void observe(json::Value seen);
  void nobody_there();
  void judge();
  void take();
  void create();
  void write(const json::Value& body, bool fresh);
  void written(const Answer& answer, Time sent);
  void lead(Time sent);
  void renew();
  void after_failed_write(const Answer& answer);
  void lose(std::string_view why);
  void give_back();
  void given_back(const Answer& answer);
  void finish_release();
  json::Value claim() const;
  void later(Duration delay, void (Impl::*what)());
  void quiet();
  void say(std::string_view what);
  Duration call_timeout() const { return Duration(options.fence.count() / 2); }
  bool fenced() const { return clock.now() > renewed + options.fence; }

  Caller& caller;
  Timers& timers;
  const Clock& clock;
  Chance& chance;
  LeaseOptions options;
  LeaseListener& listener;
  std::string collection;
  std::string path;
  Reflector watcher;
  State state = State::stopped;
  std::optional<json::Value> record;  // as last seen, unknown fields included
  std::string holder;
  std::string last_spec;
  Time changed;  // when the record last changed before our eyes
  Time renewed;  // when the request of the last renewal that succeeded was sent
  std::uint64_t renewals = 0;
  CallId call = 0;
  Timers::Id timer = 0;
  Timers::Id fence_timer = 0;
  int give_back_tries = 0;
  Task released;
  std::string said;
};

void LeaderLease::Impl::quiet() {
  caller.cancel(std::exchange(call, 0));
  timers.cancel(std::exchange(timer, 0));
  timers.cancel(std::exchange(fence_timer, 0));
  watcher.stop();
}

void LeaderLease::Impl::say(std::string_view what) {
  if (said == what) return;
  said = what;
  listener.on_trouble(what);
}

void LeaderLease::Impl::later(Duration delay, void (Impl::*what)()) {
  timers.cancel(timer);
  timer = timers.after(delay, [this, what] {
    timer = 0;
    (this->*what)();
  });
}

// A follower reads the record once, then watches it; without a watch it reads again and again.
void LeaderLease::Impl::read() {
  caller.cancel(call);
  call = caller.call({.path = path, .lane = Lane::lease, .timeout = call_timeout()},
                     [this](const Answer& answer) {
                       call = 0;
                       read_ended(answer);
                     });
}

void LeaderLease::Impl::read_ended(const Answer& answer) {
  if (answer.outcome == Outcome::answered && answer.status == 404) return nobody_there();
  Result<json::Value> seen =
      answer.ok() ? json::parse(answer.body) : Result<json::Value>(invalid_argument(""));
  if (!seen.ok()) {
    say(fmt::format("the lease {}/{} cannot be read: {}", options.namespace_name, options.name,
                    describe(answer)));
    if (state == State::leading) return after_failed_write(answer);
    return later(options.retry, &Impl::read);
  }
  observe(std::move(seen).value());
}

void LeaderLease::Impl::on_object(const ObjectEvent& event) {
  if (state != State::following) return;
  if (event.change == Change::deleted) return nobody_there();
  Result<json::Value> seen = json::parse(event.object);
  if (seen.ok()) observe(std::move(seen).value());
}

void LeaderLease::Impl::observe(json::Value seen) {
  const json::Value* spec = seen.find("spec");
  const std::string spec_text = spec == nullptr ? "" : json::dump(*spec);
  if (!record.has_value() || spec_text != last_spec) changed = clock.now();
  last_spec = spec_text;
  const std::string now_holds(spec == nullptr ? "" : spec->text("holderIdentity"));
  record = std::move(seen);
  if (now_holds != holder) {
    holder = now_holds;
    if (holder != options.identity) listener.on_leader(holder);
  }
  if (state == State::leading || state == State::taking) {
    // Read after a conflict: is it still, or already, ours?
    if (holder == options.identity) return take();
    if (state == State::leading) return lose(fmt::format("{:?} holds the lease", holder));
    state = State::following;
  }
  if (state == State::following) judge();
}

// What a follower does with what it knows.
void LeaderLease::Impl::judge() {
  if (holder.empty() || holder == options.identity) return take();
  const json::Value* spec = record->find("spec");
  const std::int64_t seconds = spec->integer("leaseDurationSeconds");
  const Duration lasts =
      seconds > 0 && seconds <= 3'600 ? Duration(seconds * 1'000) : options.duration;
  const Duration left = changed + lasts - clock.now();
  if (left.count() <= 0) return take();
  watcher.start();
  // Whether the watch works is seen by its silence only: without one, poll.
  const bool watched = watcher.figures().live;
  const Duration poll =
      options.retry + chance.between(Duration(0), Duration(options.retry.count() / 5));
  if (!watched && poll < left) return later(poll, &Impl::read);
  later(left, &Impl::judge);
}

void LeaderLease::Impl::nobody_there() {
  record.reset();
  last_spec.clear();
  if (state == State::leading) return lose("the lease was deleted");
  if (state == State::following || state == State::taking) create();
}

// The record with us as its holder, everything else as it was.
json::Value LeaderLease::Impl::claim() const {
  json::Value body = *record;
  if (body.find("spec") == nullptr || !body.find("spec")->is_object()) {
    body.set("spec", json::object());
  }
  json::Value spec = *body.find("spec");
  const std::string now = micro_time(clock.wall_us());
  if (spec.text("holderIdentity") != options.identity) {
    spec.set("acquireTime", now);
    spec.set("leaseTransitions", spec.integer("leaseTransitions") + 1);
  }
  spec.set("holderIdentity", options.identity);
  spec.set("leaseDurationSeconds", options.duration.count() / 1'000);
  spec.set("renewTime", now);
  body.set("spec", std::move(spec));
  return body;
}

void LeaderLease::Impl::take() {
  if (state == State::following) state = State::taking;
  write(claim(), false);
}

void LeaderLease::Impl::create() {
  state = State::taking;
  const std::string now = micro_time(clock.wall_us());
  write(json::object(
            {{"apiVersion", "coordination.k8s.io/v1"},
             {"kind", "Lease"},
             {"metadata",
              json::object({{"name", options.name}, {"namespace", options.namespace_name}})},
             {"spec", json::object({{"holderIdentity", options.identity},
                                    {"leaseDurationSeconds", options.duration.count() / 1'000},
                                    {"acquireTime", now},
                                    {"renewTime", now},
                                    {"leaseTransitions", 0}})}}),
        true);
}

void LeaderLease::Impl::write(const json::Value& body, bool fresh) {
  timers.cancel(std::exchange(timer, 0));
  caller.cancel(call);
  const Time sent = clock.now();
  call = caller.call({.method = fresh ? Method::post : Method::put,
                      .path = fresh ? collection : path,
                      .body = json::dump(body),
                      .lane = Lane::lease,
                      .timeout = call_timeout()},
                     [this, sent](const Answer& answer) {
                       call = 0;
                       written(answer, sent);
                     });
}

void LeaderLease::Impl::written(const Answer& answer, Time sent) {
  if (!answer.ok()) return after_failed_write(answer);
  Result<json::Value> now = json::parse(answer.body);
  if (!now.ok()) return after_failed_write(answer);
  record = std::move(now).value();
  ++renewals;
  said.clear();
  lead(sent);
}

void LeaderLease::Impl::lead(Time sent) {
  renewed = sent;
  timers.cancel(fence_timer);
  fence_timer = timers.after(sent + options.fence - clock.now() + Duration(1), [this] {
    fence_timer = 0;
    lose("it could not be renewed in time");
  });
  later(options.retry, &Impl::renew);
  if (state == State::leading) return;
  if (fenced()) return lose("it could not be taken in time");
  state = State::leading;
  holder = options.identity;
  watcher.stop();
  listener.on_leading();
}

void LeaderLease::Impl::renew() {
  if (fenced()) return lose("it could not be renewed in time");
  take();
}

void LeaderLease::Impl::after_failed_write(const Answer& answer) {
  const bool conflict =
      answer.outcome == Outcome::answered && (answer.status == 409 || answer.status == 404);
  if (state == State::leading && fenced()) return lose("it could not be renewed in time");
  if (conflict) return read();
  say(fmt::format("the lease {}/{} cannot be written: {}", options.namespace_name, options.name,
                  describe(answer)));
  later(options.retry, &Impl::read);
}

void LeaderLease::Impl::lose(std::string_view why) {
  if (state == State::over || state == State::releasing) return;
  const bool led = state == State::leading;
  quiet();
  if (!led) {  // never had it: go on trying
    state = State::following;
    return later(options.retry, &Impl::read);
  }
  state = State::over;
  listener.on_lost(why);
}

void LeaderLease::Impl::give_back() {
  json::Value body = *record;
  json::Value spec = *body.find("spec");
  spec.set("holderIdentity", "");
  spec.set("leaseDurationSeconds", 1);
  spec.set("renewTime", micro_time(clock.wall_us()));
  body.set("spec", std::move(spec));
  call = caller.call({.method = Method::put,
                      .path = path,
                      .body = json::dump(body),
                      .lane = Lane::lease,
                      .timeout = call_timeout()},
                     [this](const Answer& answer) {
                       call = 0;
                       given_back(answer);
                     });
}

// A renewal may have been on its way: then the record is read once more.
void LeaderLease::Impl::given_back(const Answer& answer) {
  const bool conflict = answer.outcome == Outcome::answered && answer.status == 409;
  if (!conflict || ++give_back_tries > 1) return finish_release();
  call = caller.call({.path = path, .lane = Lane::lease, .timeout = call_timeout()},
                     [this](const Answer& seen) {
                       call = 0;
                       Result<json::Value> now = json::parse(seen.body);
                       const json::Value* spec = now.ok() ? now->find("spec") : nullptr;
                       if (spec == nullptr || spec->text("holderIdentity") != options.identity) {
                         return finish_release();
                       }
                       record = std::move(now).value();
                       give_back();
                     });
}

void LeaderLease::Impl::finish_release() {
  state = State::over;
  Task done = std::move(released);
  if (done) done();
}

LeaderLease::LeaderLease(Caller& caller, Timers& timers, Chance& chance, LeaseOptions options,
                         LeaseListener& listener)
    : impl_(std::make_unique<Impl>(caller, timers, chance, std::move(options), listener)) {}

LeaderLease::~LeaderLease() = default;

void LeaderLease::start() {
  if (impl_->state != State::stopped) return;
  impl_->state = State::following;
  impl_->read();
}

bool LeaderLease::leads() const { return impl_->state == State::leading; }

bool LeaderLease::may_write() const { return impl_->state == State::leading && !impl_->fenced(); }

void LeaderLease::release(Task done) {
  const bool ours = impl_->state == State::leading && !impl_->fenced();
  impl_->quiet();
  impl_->released = std::move(done);
  impl_->state = ours ? State::releasing : State::over;
  if (ours) return impl_->give_back();
  impl_->timer = impl_->timers.after(Duration(0), [this] {
    impl_->timer = 0;
    impl_->finish_release();
  });
}

const std::string& LeaderLease::holder() const { return impl_->holder; }
std::uint64_t LeaderLease::renewals() const { return impl_->renewals; }

}  // namespace berth::kube
