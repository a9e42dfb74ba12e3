#include "net/server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <future>
#include <iterator>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "net/connection.h"
#include "net/listener.h"
#include "net/tls.h"
#include "net/token.h"

namespace berth::net {

namespace {

// Descriptors that the rest of the program needs: journal, logs, device files, pipes of children.
constexpr std::size_t kOtherDescriptors = 128;

std::size_t connection_limit(std::size_t wanted) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return wanted;
  const std::size_t all = files.rlim_cur;
  const std::size_t free = all > 2 * kOtherDescriptors ? all - kOtherDescriptors : all / 2;
  return std::min(wanted, free);
}

std::string user_name(std::uint32_t uid) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return printable(entry.pw_name);
  }
  return fmt::format("uid:{}", uid);
}

using Listeners = std::vector<std::unique_ptr<Listener>>;

// A client that has vanished without a word is found: by probes while nothing is sent, and by what
// stays unacknowledged otherwise.
void prepare_tcp(int fd, const ServerOptions& options) {
  const auto set = [fd](int level, int name, std::int64_t value) {
    const int number = static_cast<int>(value);
    ::setsockopt(fd, level, name, &number, sizeof number);
  };
  const std::int64_t probe_s = std::max<std::int64_t>(options.probe_after.count() / 1000, 1);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, probe_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max<std::int64_t>(probe_s / 4, 1));
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, options.write_timeout.count());
}

// The I/O thread leaves signals to the threads that expect them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all{};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct Server::Impl final : ConnectionHost {
  Impl(ServerOptions given, Handler& to) : settings(std::move(given)), handler(to) {}

  ServerOptions settings;
  Handler& handler;
  std::unique_ptr<Loop> io;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<std::string> names;
  std::vector<std::shared_ptr<Connection>> connections;
  std::vector<std::shared_ptr<Connection>> retired;
  std::map<std::uint32_t, std::string> users;
  TokenSet tokens;                       // I/O thread; and so is:
  std::shared_ptr<const TlsServer> tls;  // null: TCP is plain, on loopback only
  std::map<std::uint32_t, std::size_t> per_user;
  std::array<char, std::size_t{32} * 1024> buffer{};
  std::size_t most_connections = 0;
  std::shared_ptr<void> large_body = std::make_shared<int>();  // one reference per body, and this
  std::int64_t stop_by = 0;                                    // 0: it does not stop yet
  std::thread thread;
  std::mutex stop_mutex;
  std::atomic<std::size_t> open_count = 0;
  std::atomic<std::uint64_t> accepted_count = 0;
  std::atomic<std::uint64_t> refused_count = 0;
  std::atomic<std::uint64_t> request_count = 0;
  std::atomic<std::uint64_t> failed_count = 0;
  std::atomic<std::uint64_t> bad_count = 0;
  std::atomic<std::uint64_t> cut_count = 0;

  const ServerOptions& options() const override { return settings; }
  Loop& loop() override { return *io; }
  std::span<char> read_buffer() override { return buffer; }
  std::shared_ptr<const Caller> bearer(std::string_view authorization) override;
  void deliver(Request request, Reply reply) override;
  void count_bad_request() override { ++bad_count; }
  void count_cut_off() override { ++cut_count; }
  std::shared_ptr<void> room_for_large_body() override;
  void retire(Connection& connection) override;

  Result<void> open();
  Result<void> open_address(const std::string& text, Listeners& inherited);
  Result<void> check_tcp(const Listener& listener) const;
  Result<void> load_secrets(TokenSet& new_tokens, std::shared_ptr<const TlsServer>& new_tls) const;
  void replace_secrets(TokenSet new_tokens, std::shared_ptr<const TlsServer> new_tls);
  Result<void> begin();
  void time_rounds();
  void accepted(const Listener& listener, int fd);
  std::shared_ptr<const Caller> local_caller(int fd);
  bool has_room_for(const Caller* local) const;
  void refuse(int fd, bool plain);
  void tick();
  void wind_up();
  void run();
};

std::shared_ptr<const Caller> Server::Impl::bearer(std::string_view authorization) {
  if (settings.anyone) {
    static const auto nobody = std::make_shared<const Caller>();
    return nobody;
  }
  const std::string_view token = bearer_token(authorization);
  return token.empty() ? nullptr : tokens.find(token);
}

std::shared_ptr<void> Server::Impl::room_for_large_body() {
  const auto open = static_cast<std::size_t>(large_body.use_count() - 1);
  return open < settings.most_large_bodies ? large_body : nullptr;
}

void Server::Impl::deliver(Request request, Reply reply) {
  ++request_count;
  try {
    handler.handle(std::move(request), std::move(reply));
  } catch (...) {
    // The Reply was dropped on the way, which has answered 500; the others are served on.
    ++failed_count;
  }
}

void Server::Impl::retire(Connection& connection) {
  const std::size_t slot = connection.slot;
  if (connection.caller() && connection.caller()->local) {
    const auto user = per_user.find(connection.caller()->uid);
    if (user != per_user.end() && --user->second == 0) per_user.erase(user);
  }
  retired.push_back(std::move(connections[slot]));
  if (slot + 1 != connections.size()) {
    connections[slot] = std::move(connections.back());
    connections[slot]->slot = slot;
  }
  connections.pop_back();
  open_count = connections.size();
}

std::shared_ptr<const Caller> Server::Impl::local_caller(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return nullptr;
  auto name = users.find(peer.uid);
  if (name == users.end()) name = users.emplace(peer.uid, user_name(peer.uid)).first;
  Caller caller{
      .local = true,
      .uid = peer.uid,
      .gid = peer.gid,
      .pid = peer.pid,
      .name = name->second,
      .admin = peer.uid == 0 || peer.uid == ::geteuid() ||
               std::ranges::find(settings.admin_uids, peer.uid) != settings.admin_uids.end()};
  return std::make_shared<const Caller>(std::move(caller));
}

bool Server::Impl::has_room_for(const Caller* local) const {
  if (connections.size() >= most_connections) return false;
  if (local == nullptr || local->admin) return true;
  const std::size_t most = settings.max_connections_per_user != 0
                               ? settings.max_connections_per_user
                               : most_connections - most_connections / 4;
  const auto user = per_user.find(local->uid);
  return user == per_user.end() || user->second < most;
}

void Server::Impl::refuse(int fd, bool plain) {
  ++refused_count;
  if (plain) {
    const Response response = error_response({.status = 503,
                                              .code = "not-ready",
                                              .message = "the server has too many connections",
                                              .hint = "close some, or try again later"});
    const std::string text = fmt::format(
        "HTTP/1.1 503 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
        "Retry-After: 1\r\nConnection: close\r\n\r\n{}",
        reason_phrase(503), response.body.size(), response.body);
    // One try: who floods us does not get a buffer. A request that is there already is taken, lest
    // closing throws the answer away with it.
    ::recv(fd, buffer.data(), buffer.size(), 0);
    ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    ::shutdown(fd, SHUT_WR);
  }
  ::close(fd);
}

void Server::Impl::accepted(const Listener& listener, int fd) {
  ++accepted_count;
  std::shared_ptr<const Caller> local;
  if (listener.is_unix()) {
    local = local_caller(fd);
    if (local == nullptr) {
      ::close(fd);
      return;
    }
  }
  if (stop_by != 0 || !has_room_for(local.get())) {
    refuse(fd, listener.is_unix() || !tls);
    return;
  }
  std::unique_ptr<Transport> transport;
  if (local) {
    ++per_user[local->uid];
  } else {
    prepare_tcp(fd, settings);
    if (tls) transport = tls->accept(fd);
  }
  if (!transport) transport = std::make_unique<Transport>(fd);
  auto connection = std::make_shared<Connection>(*this, std::move(transport), std::move(local));
  connection->slot = connections.size();
  connections.push_back(connection);
  open_count = connections.size();
  connection->start();
}

void Server::Impl::tick() {
  const std::int64_t now = now_ms();
  // From the back: one that closes is replaced by the last, which has been looked at.
  for (std::size_t i = connections.size(); i-- > 0;) {
    const std::shared_ptr<Connection> connection = connections[i];
    connection->tick(now);
  }
  for (const auto& listener : listeners) {
    listener->tick();
  }
  if (stop_by != 0 && now >= stop_by) io->quit();
}

void Server::Impl::wind_up() {
  stop_by = now_ms() + settings.stop_grace.count();
  listeners.clear();
  for (std::size_t i = connections.size(); i-- > 0;) {
    const std::shared_ptr<Connection> connection = connections[i];
    connection->wind_up();
  }
}

bool is_bound_to(const Listener& listener, const Address& address) {
  const Address& bound = listener.address();
  if (bound.scheme != address.scheme) return false;
  if (listener.is_unix()) return bound.path == address.path;
  const bool any = address.host.empty() && (bound.host == "::" || bound.host == "0.0.0.0");
  return bound.port == address.port && (any || bound.host == address.host);
}

Result<void> Server::Impl::open_address(const std::string& text, Listeners& inherited) {
  TRY(const Address address, parse_listen(text));
  const auto found = std::ranges::find_if(
      inherited, [&](const auto& listener) { return is_bound_to(*listener, address); });
  if (found != inherited.end()) {
    listeners.push_back(std::move(*found));
    inherited.erase(found);
    return success();
  }
  if (address.scheme == Address::Scheme::unix_socket) {
    TRY(auto listener, Listener::open_unix(address, settings.unix_mode));
    listeners.push_back(std::move(listener));
    return success();
  }
  TRY(Listeners opened, Listener::open_tcp(address));
  std::ranges::move(opened, std::back_inserter(listeners));
  return success();
}

Result<void> Server::Impl::check_tcp(const Listener& listener) const {
  const std::string where = listener.address().authority();
  if (settings.anyone && (tls != nullptr || settings.plain_anywhere)) {
    return success();
  }
  if (tls == nullptr && !settings.allow_plain_loopback) {
    return invalid_argument(fmt::format(
        "{} is not listened on without TLS, since tokens and commands could be read and changed on "
        "the way: give a certificate and its key, or listen on a Unix socket",
        where));
  }
  if (tls == nullptr && !listener.is_loopback()) {
    return invalid_argument(fmt::format(
        "{} is not listened on without TLS: what is allowed in plain, for tests, is 127.0.0.1 and "
        "[::1] only; give a certificate and its key",
        where));
  }
  if (settings.token_file.empty() && !settings.anyone) {
    return invalid_argument(
        fmt::format("{} is not listened on without tokens, since everybody who reaches it could "
                    "call: give a token file, or listen on a Unix socket",
                    where));
  }
  return success();
}

Result<void> Server::Impl::load_secrets(TokenSet& new_tokens,
                                        std::shared_ptr<const TlsServer>& new_tls) const {
  if (!settings.token_file.empty()) {
    TRY(new_tokens, TokenSet::load(settings.token_file));
  }
  if (settings.certificate_file.empty() != settings.key_file.empty()) {
    return invalid_argument("a certificate and its key are given together, or neither");
  }
  if (!settings.certificate_file.empty()) {
    TRY(new_tls, TlsServer::load(settings.certificate_file, settings.key_file));
  } else if (!settings.certificate.empty()) {
    TRY(new_tls, TlsServer::make(settings.certificate, settings.key));
  }
  return success();
}

void Server::Impl::replace_secrets(TokenSet new_tokens, std::shared_ptr<const TlsServer> new_tls) {
  new_tokens.take_over(tokens);
  tokens = std::move(new_tokens);
  tls = std::move(new_tls);
  users.clear();  // names may have changed, too
  for (std::size_t i = connections.size(); i-- > 0;) {
    const std::shared_ptr<Connection> connection = connections[i];
    const Caller* caller = connection->caller().get();
    const bool named = caller != nullptr && !caller->local && !settings.anyone;
    if (named && !tokens.holds(*caller)) connection->disown();
  }
}

Result<void> Server::Impl::open() {
  Listeners inherited;
  for (const InheritedSocket& socket : settings.inherited) {
    TRY(auto listener, Listener::adopt(socket));
    inherited.push_back(std::move(listener));
  }
  for (const std::string& text : settings.listen) {
    TRY_VOID(open_address(text, inherited));
  }
  std::ranges::move(inherited, std::back_inserter(listeners));
  if (listeners.empty()) {
    return invalid_argument("the server has nothing to listen on; name unix:/PATH or HOST:PORT");
  }
  return success();
}

Result<void> Server::Impl::begin() {
  most_connections = connection_limit(settings.max_connections);
  TRY_VOID(load_secrets(tokens, tls));
  TRY(io, Loop::make());
  TRY_VOID(open());
  for (const auto& listener : listeners) {
    const Address& address = listener->address();
    if (listener->is_unix()) {
      names.push_back("unix:" + address.path);
    } else {
      TRY_VOID(check_tcp(*listener));
      names.push_back((tls ? "https://" : "http://") + address.authority());
    }
    TRY_VOID(listener->start(
        *io, [this](const Listener& from, int fd) { accepted(from, fd); },
        [this] { ++refused_count; }));
  }
  time_rounds();
  const SignalsBlocked blocked;
  thread = std::thread([this] { run(); });
  return success();
}

// The clock is looked at often enough for the shortest time-out, and only while somebody is
// connected.
void Server::Impl::time_rounds() {
  std::int64_t shortest = 4000;
  for (const Duration timeout :
       {settings.idle_timeout, settings.header_timeout, settings.body_timeout,
        settings.write_timeout, settings.linger, settings.stop_grace, settings.heartbeat}) {
    if (timeout.count() > 0) shortest = std::min(shortest, timeout.count());
  }
  const auto wanted = [this] {
    return stop_by != 0 || !connections.empty() ||
           std::ranges::any_of(listeners, [](const auto& one) { return one->is_paused(); });
  };
  io->every(std::max<std::int64_t>(shortest / 4, 5), wanted, [this] { tick(); });
  io->after_round([this] {
    retired.clear();
    if (stop_by != 0 && connections.empty()) io->quit();
  });
}

void Server::Impl::run() {
  pthread_setname_np(pthread_self(), "berth-net");
  io->run();
  listeners.clear();
  while (!connections.empty()) {
    connections.back()->close(false);
  }
  retired.clear();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { stop(); }

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Handler& handler) {
  auto impl = std::make_unique<Impl>(std::move(options), handler);
  TRY_VOID(impl->begin());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

void Server::stop() {
  const std::lock_guard lock(impl_->stop_mutex);
  if (!impl_->thread.joinable()) return;
  impl_->io->mailbox()->post([this] { impl_->wind_up(); });
  impl_->thread.join();
  impl_->io->mailbox()->close();
}

Result<void> Server::reload() {
  TokenSet tokens;
  std::shared_ptr<const TlsServer> tls;
  TRY_VOID(impl_->load_secrets(tokens, tls));
  // The task alone owns the promise: a server that stops drops the task, and that ends the wait.
  bool applied = false;
  std::promise<void> over;
  const std::future<void> is_over = over.get_future();
  impl_->io->mailbox()->post([this, &applied, over = std::move(over), tokens = std::move(tokens),
                              tls = std::move(tls)]() mutable {
    impl_->replace_secrets(std::move(tokens), std::move(tls));
    applied = true;
    over.set_value();
  });
  is_over.wait();
  if (applied) return success();
  return Error{ErrorCode::unavailable,
               "the server stops: tokens and certificate are read when it starts again"};
}

Result<void> Server::replace_certificate(const std::string& certificate, const std::string& key) {
  TRY(std::shared_ptr<const TlsServer> tls, TlsServer::make(certificate, key));
  const auto done = std::make_shared<std::promise<void>>();
  const std::future<void> applied = done->get_future();
  impl_->io->mailbox()->post([this, done, tls = std::move(tls)]() mutable {
    impl_->tls = std::move(tls);
    done->set_value();
  });
  applied.wait();
  return success();
}

std::vector<std::string> Server::addresses() const { return impl_->names; }

ServerCounts Server::counts() const {
  return {.most_connections = impl_->most_connections,
          .connections = impl_->open_count,
          .accepted = impl_->accepted_count,
          .refused = impl_->refused_count,
          .requests = impl_->request_count,
          .failed_requests = impl_->failed_count,
          .bad_requests = impl_->bad_count,
          .cut_off = impl_->cut_count};
}

}  // namespace berth::net
