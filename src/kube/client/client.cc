#include "kube/client/client.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/assert.h"
#include "kube/client/credentials.h"
#include "kube/client/exchange.h"
#include "kube/client/lane_line.h"
#include "kube/client/poller.h"

namespace berth::kube {

namespace {

constexpr std::size_t kLanes = 4;
constexpr int kMostTries = 10;
constexpr std::size_t kKeptExchanges = 96;

std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

// One call from call() to its callback, over as many tries as it takes.
struct Job {
  CallId id = 0;
  Call call = {};
  Answered done = {};
  StreamSink* sink = nullptr;  // of a stream
  bool sign_of_life = false;
  bool renewed = false;  // was repeated after a 401
  int tries = 0;
  std::unique_ptr<Exchange> exchange = {};  // while it is on a lane
  std::optional<Backoff> backoff = {};
  Timers::Id pause = 0;
  Time sent = {};
  std::uint64_t heard_when_sent = 0;  // of its lane
};

bool worth_another_try(const Answer& answer) {
  return answer.outcome != Outcome::answered || answer.status == 429 || answer.status >= 500;
}

class RealClient final : public Client {
 public:
  RealClient(Access access, const ClientOptions& options, std::unique_ptr<Poller> poller)
      : access_(std::move(access)),
        options_(options),
        clock_(options.clock == nullptr ? machine_clock() : *options.clock),
        poller_(std::move(poller)),
        timers_(clock_),
        chance_(options.seed),
        target_(make_target(access_, options.user_agent, options.connect_timeout)) {
    lines_.reserve(kLanes);
    for (std::size_t i = 0; i < kLanes; ++i)
      lines_.emplace_back(*poller_, clock_);
  }

  ~RealClient() override {
    for (LaneLine& line : lines_) {
      for (Exchange* exchange : line.everything())
        line.remove(*exchange);
    }
  }

  Result<void> start() {
    TRY(credentials_,
        Credentials::make(access_, *poller_, timers_, [this] { credentials_changed(); }));
    return success();
  }

  CallId call(Call call, Answered done) override {
    auto job = std::make_unique<Job>();
    job->call = std::move(call);
    job->done = std::move(done);
    return take(std::move(job));
  }

  CallId stream(StreamCall call, StreamSink& sink) override {
    auto job = std::make_unique<Job>();
    job->call = {.path = std::move(call.path), .lane = call.lane, .timeout = call.timeout};
    job->sink = &sink;
    return take(std::move(job));
  }

  void cancel(CallId id) override {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;
    std::unique_ptr<Job> job = std::move(found->second);
    jobs_.erase(found);
    timers_.cancel(job->pause);
    if (job->exchange == nullptr) return;
    job->exchange->mute();
    cancelled_.push_back(std::move(job));  // libcurl may be calling us: taken off in turn()
  }

  void turn(Duration most) override;
  void wake() override { poller_->wake(); }

  void post(Task task) override {
    {
      const std::lock_guard lock(posted_mutex_);
      posted_.push_back(std::move(task));
    }
    poller_->wake();
  }

  Timers& timers() override { return timers_; }
  Chance& chance() override { return chance_; }
  const Access& access() const override { return access_; }
  ClientFigures figures() const override { return figures_; }
  std::string trouble() const override { return credentials_->trouble(); }

 private:
  LaneLine& line(const Job& job) { return lines_[index(job.call.lane)]; }

  CallId take(std::unique_ptr<Job> job) {
    const CallId id = ++last_id_;
    job->id = id;
    jobs_.emplace(id, std::move(job));
    to_start_.push_back(id);
    return id;
  }

  std::shared_ptr<const Outfit> outfit();
  void credentials_changed();
  void run_posted();
  void start_and_stop();
  void start(Job& job);
  void put_on_line(Job& job, const std::shared_ptr<const Outfit>& outfit);
  bool collect();
  void ended(std::size_t lane, const Channel::Ended& end);
  void settle(std::unique_ptr<Job> job, const Answer& answer);
  bool try_again(std::unique_ptr<Job>& job, const Answer& answer);
  void deliver(Job& job, const Answer& answer);
  void rest(std::unique_ptr<Exchange> exchange);
  void watch_silence();
  void give_up(std::size_t lane, std::string_view why);
  Duration until_something() const;

  Access access_;
  ClientOptions options_;
  const Clock& clock_;
  std::unique_ptr<Poller> poller_;
  Timers timers_;
  Chance chance_;
  Target target_;
  std::unique_ptr<Credentials> credentials_;
  std::shared_ptr<const Outfit> outfit_;
  std::vector<LaneLine> lines_;
  std::array<CallId, kLanes> sign_of_life_{};  // asked for; 0: not
  CallId last_id_ = 0;
  std::unordered_map<CallId, std::unique_ptr<Job>> jobs_;
  std::vector<CallId> to_start_;
  std::vector<CallId> without_credentials_;
  std::vector<std::unique_ptr<Job>> cancelled_;
  std::vector<std::unique_ptr<Exchange>> resting_;
  std::mutex posted_mutex_;
  std::vector<Task> posted_;
  ClientFigures figures_;
};

std::shared_ptr<const Outfit> RealClient::outfit() {
  const std::shared_ptr<const CredentialSet> set = credentials_->current();
  if (set == nullptr) return nullptr;
  if (outfit_ == nullptr || outfit_->credentials() != set) {
    outfit_ = std::make_shared<const Outfit>(target_, set);
  }
  return outfit_;
}

// There are new credentials, or none for the moment: what has waited for them learns it.
void RealClient::credentials_changed() {
  const std::vector<CallId> waiting = std::exchange(without_credentials_, {});
  const std::string trouble = credentials_->trouble();
  if (trouble.empty()) {
    to_start_.insert(to_start_.end(), waiting.begin(), waiting.end());
    return;
  }
  for (const CallId id : waiting) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) continue;
    std::unique_ptr<Job> job = std::move(found->second);
    jobs_.erase(found);
    settle(std::move(job), {.outcome = Outcome::not_sent, .problem = trouble});
  }
}

void RealClient::run_posted() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(posted_mutex_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks)
    task();
}

void RealClient::start_and_stop() {
  for (std::unique_ptr<Job>& job : std::exchange(cancelled_, {})) {
    line(*job).remove(*job->exchange);
    rest(std::move(job->exchange));
  }
  for (const CallId id : std::exchange(to_start_, {})) {
    const auto found = jobs_.find(id);
    if (found != jobs_.end()) start(*found->second);
  }
}

void RealClient::start(Job& job) {
  if (job.call.may_start && !job.call.may_start()) {
    const auto found = jobs_.find(job.id);
    const std::unique_ptr<Job> held = std::move(found->second);
    jobs_.erase(found);
    return deliver(*held, {.outcome = Outcome::not_sent, .problem = kNotOurs});
  }
  const std::shared_ptr<const Outfit> clothes = outfit();
  if (clothes == nullptr) {
    without_credentials_.push_back(job.id);
    return;
  }
  put_on_line(job, clothes);
}

void RealClient::put_on_line(Job& job, const std::shared_ptr<const Outfit>& outfit) {
  if (resting_.empty()) {
    job.exchange = std::make_unique<Exchange>();
  } else {
    job.exchange = std::move(resting_.back());
    resting_.pop_back();
  }
  LaneLine& lane = line(job);
  job.exchange->prepare({.method = job.call.method,
                         .path = job.call.path,
                         .body = job.call.body,
                         .content = job.call.content,
                         .accept = &job.call.accept,
                         .timeout = job.call.timeout,
                         .sink = job.sink,
                         .may_start = &job.call.may_start},
                        outfit, job.id, lane.heard());
  job.sent = clock_.now();
  job.heard_when_sent = lane.heard();
  ++job.tries;
  ++figures_.calls;
  lane.add(*job.exchange);
}

// Calls back for everything that has ended. False: nothing had.
bool RealClient::collect() {
  bool any = false;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    while (const std::optional<Channel::Ended> end = lines_[lane].next_ended()) {
      any = true;
      ended(lane, *end);
    }
  }
  return any;
}

void RealClient::ended(std::size_t lane, const Channel::Ended& end) {
  Exchange& exchange = *end.exchange;
  const auto found = jobs_.find(exchange.owner());
  if (found == jobs_.end()) {  // cancelled; it has come off by itself meanwhile
    const auto job = std::ranges::find(cancelled_, exchange.owner(), &Job::id);
    ASSERT(job != cancelled_.end());
    rest(std::move((*job)->exchange));
    cancelled_.erase(job);
    return;
  }
  std::unique_ptr<Job> job = std::move(found->second);
  jobs_.erase(found);
  figures_.connections += exchange.connections();
  Answer answer = exchange.answer(end.curl_result);
  answer.sent = job->sent;
  const bool timed_out = exchange.timed_out(end.curl_result);
  const bool mute = timed_out && !job->sign_of_life && lines_[lane].heard() == job->heard_when_sent;
  if (answer.outcome == Outcome::answered) {
    ++figures_.answers;
    ++lines_[lane].heard();  // an answer without a body, too
  } else if (!timed_out) {
    // Whatever it was, its connection gets nothing new: libcurl would go on using one that the
    // server has said farewell to.
    lines_[lane].retire();
  }
  settle(std::move(job), answer);
  // Not a byte for all of its time: the others wait for a dead connection.
  if (mute) give_up(lane, "the connection was silent");
}

void RealClient::settle(std::unique_ptr<Job> job, const Answer& answer) {
  if (job->sign_of_life) {
    const std::size_t lane = index(job->call.lane);
    sign_of_life_[lane] = 0;
    rest(std::move(job->exchange));
    if (answer.outcome != Outcome::answered) give_up(lane, "the server gave no sign of life");
    return;
  }
  if (try_again(job, answer)) return;
  deliver(*job, answer);
  rest(std::move(job->exchange));
}

// Whether the job goes another round; then it is back among the others.
bool RealClient::try_again(std::unique_ptr<Job>& job, const Answer& answer) {
  const bool refused = answer.outcome == Outcome::answered && answer.status == 401;
  if (refused && !job->renewed && job->exchange != nullptr &&
      credentials_->rejected(job->exchange->outfit()->credentials())) {
    job->renewed = true;
    rest(std::move(job->exchange));
    to_start_.push_back(job->id);
    const CallId id = job->id;
    jobs_.emplace(id, std::move(job));
    return true;
  }
  if (job->call.retry == Retry::never || job->sink != nullptr || job->tries >= kMostTries ||
      !worth_another_try(answer)) {
    return false;
  }
  ++figures_.retries;
  if (!job->backoff.has_value()) job->backoff.emplace(clock_, chance_);
  const Duration delay = job->backoff->next(answer.retry_after.value_or(Duration(0)));
  rest(std::move(job->exchange));
  const CallId id = job->id;
  job->pause = timers_.after(delay, [this, id] { to_start_.push_back(id); });
  jobs_.emplace(id, std::move(job));
  return true;
}

void RealClient::deliver(Job& job, const Answer& answer) {
  if (answer.outcome == Outcome::unknown) ++figures_.unknown;
  if (answer.outcome == Outcome::not_sent) ++figures_.not_sent;
  if (job.sink != nullptr) {
    job.sink->on_end(answer);
  } else if (job.done) {
    job.done(answer);
  }
}

void RealClient::rest(std::unique_ptr<Exchange> exchange) {
  if (exchange == nullptr || resting_.size() >= kKeptExchanges) return;
  exchange->rest();
  resting_.push_back(std::move(exchange));
}

// Asks lanes for a sign of life that have work and have been silent for long.
void RealClient::watch_silence() {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    LaneLine& line = lines_[lane];
    line.listen();
    if (line.on_it() == 0 || sign_of_life_[lane] != 0) continue;
    if (clock_.now() - line.silent_since() < options_.silence) continue;
    auto job = std::make_unique<Job>();
    job->call = {.path = "/version", .lane = static_cast<Lane>(lane), .timeout = options_.patience};
    job->sign_of_life = true;
    sign_of_life_[lane] = take(std::move(job));
  }
}

// Ends everything on a lane and closes its connections.
void RealClient::give_up(std::size_t lane, std::string_view why) {
  ++figures_.lost_lanes;
  LaneLine& line = lines_[lane];
  const std::string sentence =
      fmt::format("the connection to {} was given up: {}", access_.server, why);
  std::vector<std::pair<std::unique_ptr<Job>, Answer>> lost;
  for (Exchange* exchange : line.everything()) {
    const auto found = jobs_.find(exchange->owner());
    if (found == jobs_.end()) continue;  // cancelled; below
    Answer answer = exchange->broken_off(sentence);
    answer.sent = found->second->sent;
    line.remove(*exchange);
    lost.emplace_back(std::move(found->second), answer);
    jobs_.erase(found);
  }
  std::erase_if(cancelled_, [&](std::unique_ptr<Job>& job) {
    if (index(job->call.lane) != lane) return false;
    line.remove(*job->exchange);
    rest(std::move(job->exchange));
    return true;
  });
  line.close_all();
  for (auto& [job, answer] : lost) {
    if (job->sign_of_life) {
      sign_of_life_[lane] = 0;
      continue;
    }
    settle(std::move(job), answer);
  }
}

Duration RealClient::until_something() const {
  if (!to_start_.empty() || !cancelled_.empty()) return Duration(0);
  Duration least = timers_.until_next().value_or(Duration(3'600'000));
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const LaneLine& line = lines_[lane];
    least = std::min(least, line.until_due().value_or(least));
    if (line.on_it() != 0 && sign_of_life_[lane] == 0) {
      const Duration left = line.silent_since() + options_.silence - clock_.now();
      least = std::min(least, std::max(left, Duration(0)));
    }
  }
  return least;
}

void RealClient::turn(Duration most) {
  run_posted();
  start_and_stop();
  poller_->wait(std::min(most, until_something()));
  run_posted();
  timers_.run_due();
  // What callbacks start leaves in the same turn.
  for (int round = 0; round < 4; ++round) {
    start_and_stop();
    for (LaneLine& line : lines_)
      line.run_due();
    if (!collect()) break;
  }
  watch_silence();
}

}  // namespace

Result<std::unique_ptr<Client>> Client::make(Access access, const ClientOptions& options) {
  TRY(std::unique_ptr<Poller> poller, Poller::make());
  auto client = std::make_unique<RealClient>(std::move(access), options, std::move(poller));
  TRY_VOID(client->start());
  return std::unique_ptr<Client>(std::move(client));
}

}  // namespace berth::kube
