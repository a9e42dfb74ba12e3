#include "kube/scheduler/scheduler.h"

#include <atomic>
#include <cstdio>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/engine/decision_log.h"
#include "kube/client/client.h"
#include "kube/client/lease.h"
#include "kube/scheduler/caches.h"
#include "kube/scheduler/face.h"
#include "kube/scheduler/sender.h"
#include "net/server.h"

namespace berth::kube {

namespace {

constexpr Duration kLongestTurn{1'000};
constexpr std::int64_t kMicros = 1000;

// The decision log's file: written through, so that what was decided last can be read after a
// crash as far as the system had it.
class LogFile {
 public:
  LogFile() = default;
  ~LogFile() {
    if (fd_ >= 0) {
      std::string end;
      core::append_end(end);
      write(end);
      ::close(fd_);
    }
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  Result<void> open(const std::string& path, const core::EngineConfig& config) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) {
      return invalid_argument(fmt::format("--decision-log {}: the file cannot be written: {}", path,
                                          std::generic_category().message(errno)));
    }
    std::string header;
    core::append_header(header, config);
    write(header);
    return success();
  }

  bool is_open() const { return fd_ >= 0; }

  // Errors end the log, not the scheduler.
  bool write(std::string_view bytes) {
    while (fd_ >= 0 && !bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        ::close(fd_);
        fd_ = -1;
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

 private:
  int fd_ = -1;
};

}  // namespace

struct Scheduler::Impl : LeaseListener, net::Handler {
  explicit Impl(SchedulerOptions the_options) : options(std::move(the_options)) {}

  ~Impl() override {
    if (server != nullptr) {
      server->stop();
    }
  }

  Result<void> start();
  Result<void> run();
  void begin();  // to read
  void turn();
  void work();
  void write_log();
  void log_news();
  bool leads() const { return lease == nullptr || lease->leads(); }
  bool may_write() const { return lease == nullptr || lease->may_write(); }
  Time now() const { return Time(origin + client->timers().clock().now().ms()); }
  void log(std::string_view level, std::string_view text) const {
    if (options.log) {
      options.log(level, text);
    }
  }

  void on_leading() override;
  void on_lost(std::string_view why) override;
  void on_leader(std::string_view identity) override;
  void on_trouble(std::string_view what) override {
    log("warning", fmt::format("lease: {}", what));
  }

  void handle(net::Request request, net::Reply reply) override;
  Face::Facts facts() const;

  SchedulerOptions options;
  std::int64_t origin = 0;  // ms: of the clock, to milliseconds since 1970
  std::unique_ptr<Client> client;
  std::unique_ptr<LeaderLease> lease;
  std::unique_ptr<Harbour> harbour;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Caches> caches;
  std::unique_ptr<net::Server> server;
  LogFile decisions;
  std::string pending_log;
  std::string leader;  // who leads, as far as is known
  std::atomic<bool> stopping = false;
  bool lost = false;
  std::string why_lost;
  bool dirty = false;
};

Result<void> Scheduler::Impl::start() {
  TRY(client, Client::make(options.access, {.user_agent = "berth-scheduler/" + options.version,
                                            .seed = options.seed}));
  const Clock& clock = client->timers().clock();
  origin = clock.wall_us() / kMicros - clock.now().ms();
  // What is wrong with the configuration shows now, not when it leads.
  TRY(harbour, Harbour::create(options.harbour, now()));
  if (!options.decision_log.empty()) {
    TRY_VOID(decisions.open(options.decision_log, harbour->engine().config()));
  }
  if (!options.listen.empty()) {
    TRY(server, net::Server::start(
                    {.listen = options.listen, .anyone = true, .plain_anywhere = true}, *this));
  }
  return success();
}

void Scheduler::Impl::begin() {
  if (decisions.is_open()) {
    harbour->set_tap([this](const core::Event& event, std::span<const core::Action> actions) {
      core::append_event(pending_log, event);
      core::append_actions(pending_log, actions, harbour->engine());
    });
    if (options.harbour.queues.has_value()) {
      harbour->set_queues(*options.harbour.queues, now());  // into the log
    }
  }
  sender = std::make_unique<Sender>(
      *client, [this] { return may_write(); }, options.instance, options.dry_run,
      [this](std::uint64_t number, Said said) {
        dirty = true;
        harbour->answered(number, said, now());
      });
  caches = std::make_unique<Caches>(
      *client, *harbour, [this] { return now(); },
      [this](std::string_view level, std::string_view text) { log(level, text); });
  caches->start();
}

Result<void> Scheduler::Impl::run() {
  begin();
  if (options.leader_elect) {
    lease = std::make_unique<LeaderLease>(*client, client->timers(), client->chance(),
                                          LeaseOptions{.namespace_name = options.lease_namespace,
                                                       .name = options.lease_name,
                                                       .identity = options.instance,
                                                       .duration = options.lease_duration,
                                                       .fence = options.lease_fence,
                                                       .retry = options.lease_retry},
                                          *this);
    lease->start();
  }
  while (!stopping && !lost) {
    turn();
  }
  if (lease != nullptr && !lost) {
    bool released = false;
    lease->release([&released] { released = true; });
    for (const Time until = now() + Duration(3'000); !released && now() < until;) {
      client->turn(Duration(100));
    }
  }
  write_log();
  if (lost) {
    return Error(ErrorCode::unavailable, fmt::format("the leader's lease is lost: {}", why_lost));
  }
  return success();
}

void Scheduler::Impl::turn() {
  Duration most = kLongestTurn;
  if (const auto due = harbour->next_due(); due.has_value()) {
    most = std::clamp(*due - now(), Duration(0), kLongestTurn);
  }
  client->turn(most);
  if (!lost) {
    work();
  }
}

// What came is decided on, and what is wanted is sent as far as there is room.
void Scheduler::Impl::work() {
  const Time time = now();
  if (!harbour->ready() && caches->ready() && leads()) {
    const Time began = time;
    harbour->set_ready(true, time);
    log("info", fmt::format("ready: {} nodes, {} pods; decided in {} ms",
                            harbour->engine().fleet().present_nodes(), harbour->ours().size(),
                            (now() - began).count()));
  }
  dirty = caches->take_news() || dirty;
  const auto due = harbour->next_due();
  if (dirty || (due.has_value() && *due <= time)) {
    dirty = false;
    harbour->settle(time);
  }
  if (harbour->has_deeds()) {
    Harbour::Room room = sender->room();
    room.bindings = caches->live() && !harbour->watch_lags(time) ? room.bindings : 0;
    for (Deed& deed : harbour->take(room, time)) {
      sender->send(std::move(deed));
    }
  }
  log_news();
  write_log();
}

void Scheduler::Impl::log_news() {
  for (const HarbourNews& item : harbour->take_news()) {
    std::string text(options.dry_run && item.kind == "bound" ? "would-bind" : item.kind);
    if (!item.pod.empty()) {
      text += " pod=" + item.pod;
    }
    if (!item.node.empty()) {
      text += " node=" + item.node;
    }
    if (!item.text.empty()) {
      text += " text=" + net::json_quoted(item.text);
    }
    log(item.kind == "alarm" || item.kind == "refused-event" ? "warning" : "info", text);
  }
}

void Scheduler::Impl::write_log() {
  if (!pending_log.empty() && !decisions.write(pending_log)) {
    log("error", "the decision log cannot be written any more; it ends here");
  }
  pending_log.clear();
}

void Scheduler::Impl::on_leading() {
  log("info", fmt::format("{} leads", options.instance));
  leader = options.instance;
  // What is known may lack what another has written last.
  caches->read_again();
}

void Scheduler::Impl::on_lost(std::string_view why) {
  lost = true;
  why_lost = why;
}

void Scheduler::Impl::on_leader(std::string_view identity) {
  leader = identity;
  log("info", identity.empty() ? std::string("nobody leads") : fmt::format("{} leads", identity));
}

// On the server's thread: the answer is made where the harbour lives.
void Scheduler::Impl::handle(net::Request request, net::Reply reply) {
  if (request.path == "/livez") {
    reply.send({.content_type = "text/plain", .body = "ok\n"});
    return;
  }
  auto shared = std::make_shared<net::Reply>(std::move(reply));
  client->post([this, request = std::move(request), shared] {
    shared->send(Face(facts()).answer(request));
  });
  client->wake();
}

Face::Facts Scheduler::Impl::facts() const {
  return {.harbour = leads() ? harbour.get() : nullptr,
          .caches = caches.get(),
          .client = client.get(),
          .sender = sender.get(),
          .leads = leads(),
          .leader = leader,
          .dry_run = options.dry_run,
          .version = options.version,
          .now = now()};
}

Scheduler::Scheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Scheduler::~Scheduler() = default;

Result<std::unique_ptr<Scheduler>> Scheduler::make(SchedulerOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  TRY_VOID(impl->start());
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(impl)));
}

Result<void> Scheduler::run() { return impl_->run(); }

void Scheduler::stop() {
  impl_->stopping = true;
  impl_->client->wake();
}

void Scheduler::reload() {
  impl_->client->post([impl = impl_.get()] {
    if (!impl->options.read_queues) {
      return;
    }
    auto queues = impl->options.read_queues();
    if (!queues.ok()) {
      impl->log("error", fmt::format("the queues stay as they are: {}", queues.error().message()));
      return;
    }
    impl->options.harbour.queues = *queues;
    impl->harbour->set_queues(*std::move(queues), impl->now());
    impl->dirty = true;
    impl->log("info", "the queues were read again");
  });
}

std::vector<std::string> Scheduler::addresses() const {
  return impl_->server == nullptr ? std::vector<std::string>() : impl_->server->addresses();
}

}  // namespace berth::kube
