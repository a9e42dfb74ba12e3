#include "kube/client/exec_plugin.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "json/value.h"
#include "kube/client/text.h"

extern char** environ;

namespace berth::kube {

namespace {

constexpr std::size_t kMostPrinted = std::size_t{1} << 20U;
constexpr Duration kLook{10};

Error plugin_error(const ExecPlugin& plugin, std::string_view what) {
  return Error(ErrorCode::unavailable,
               fmt::format("the credential plug-in {} {}{}{}", plugin.command, what,
                           plugin.install_hint.empty() ? "" : "; ", plugin.install_hint));
}

// Our environment, with the plug-in's variables in place of ours.
std::vector<std::string> plugin_environment(const ExecPlugin& plugin, const std::string& info) {
  std::vector<std::string> own;
  own.push_back("KUBERNETES_EXEC_INFO=" + info);
  for (const auto& [name, value] : plugin.environment)
    own.push_back(name + "=" + value);
  const std::size_t given = own.size();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const std::string_view name = line.substr(0, line.find('=') + 1);
    bool replaced = false;
    for (std::size_t i = 0; i < given; ++i)
      replaced = replaced || own[i].starts_with(name);
    if (!replaced) own.emplace_back(line);
  }
  return own;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts)
    all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

Result<ExecCredential> read_exec_credential(std::string_view printed, const ExecPlugin& plugin) {
  const Result<json::Value> parsed = json::parse(printed);
  if (!parsed.ok() || parsed->text("kind") != "ExecCredential") {
    return plugin_error(plugin, "printed no ExecCredential; run it by hand to see what it says");
  }
  if (parsed->text("apiVersion") != plugin.api_version) {
    return plugin_error(
        plugin, fmt::format("answers in {:?}, not in {:?} as the kubeconfig says",
                            parsed->text("apiVersion"), std::string_view(plugin.api_version)));
  }
  const json::Value* status = parsed->find("status");
  if (status == nullptr || !status->is_object()) {
    return plugin_error(plugin, "printed no status; run it by hand to see what it says");
  }
  ExecCredential credential{.token = std::string(status->text("token")),
                            .certificate_pem = std::string(status->text("clientCertificateData")),
                            .key_pem = std::string(status->text("clientKeyData"))};
  if (credential.certificate_pem.empty() != credential.key_pem.empty()) {
    return plugin_error(plugin, "printed only one of clientCertificateData and clientKeyData");
  }
  if (credential.token.empty() && credential.certificate_pem.empty()) {
    return plugin_error(plugin, "printed neither a token nor a certificate");
  }
  if (const json::Value* end = status->find("expirationTimestamp"); end != nullptr) {
    const std::string_view text = end->is_string() ? end->as_string() : std::string_view();
    credential.expires_us = parse_instant(text);
    if (!credential.expires_us.has_value() && !end->is_null()) {
      return plugin_error(plugin, fmt::format("printed {:?} as expirationTimestamp; RFC 3339 is "
                                              "expected",
                                              text));
    }
  }
  return credential;
}

std::string exec_info(const ExecPlugin& plugin, const Access& access) {
  json::Value spec = json::object({{"interactive", false}});
  if (plugin.provide_cluster_info) {
    json::Value cluster = json::object({{"server", access.server}});
    if (!access.tls_server_name.empty()) cluster.add("tls-server-name", access.tls_server_name);
    if (access.insecure) cluster.add("insecure-skip-tls-verify", true);
    if (!access.ca_pem.empty()) {
      cluster.add("certificate-authority-data", to_base64(access.ca_pem));
    }
    if (!access.proxy_url.empty()) cluster.add("proxy-url", access.proxy_url);
    spec.add("cluster", std::move(cluster));
  }
  return json::dump(json::object(
      {{"apiVersion", plugin.api_version}, {"kind", "ExecCredential"}, {"spec", std::move(spec)}}));
}

ExecRun::ExecRun(const ExecPlugin& plugin, const std::string& info, Poller& poller, Timers& timers,
                 Duration limit, Done done)
    : name_(plugin.command), poller_(poller), timers_(timers), done_(std::move(done)) {
  if (const int why = start(plugin, info); why != 0) {
    const Error error = plugin_error(plugin, fmt::format("cannot be run: {}", strerror(why)));
    limit_timer_ = timers_.after(Duration(0), [this, error] {
      limit_timer_ = 0;
      finish(error);
    });
    return;
  }
  poller_.watch(out_, {.readable = true}, *this);
  limit_timer_ = timers_.after(limit, [this, limit] {
    limit_timer_ = 0;
    finish(Error(ErrorCode::unavailable,
                 fmt::format("the credential plug-in {} did not end within {} s", name_,
                             limit.count() / 1'000)));
  });
}

ExecRun::~ExecRun() {
  stop_reading();
  timers_.cancel(limit_timer_);
  timers_.cancel(look_timer_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

// Returns 0, or errno.
int ExecRun::start(const ExecPlugin& plugin, const std::string& info) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> words = {plugin.command};
  words.insert(words.end(), plugin.arguments.begin(), plugin.arguments.end());
  std::vector<std::string> variables = plugin_environment(plugin, info);
  const int failed = posix_spawnp(&pid_, plugin.command.c_str(), &actions, &attributes,
                                  pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (failed != 0) {
    pid_ = -1;
    close(ends[0]);
    return failed;
  }
  out_ = ends[0];
  fcntl(out_, F_SETFL, O_NONBLOCK);
  return 0;
}

void ExecRun::stop_reading() {
  if (out_ < 0) return;
  poller_.unwatch(out_);
  close(out_);
  out_ = -1;
}

void ExecRun::on_ready(int /*fd*/, bool /*readable*/, bool /*writable*/) {
  std::array<char, 16'384> piece{};
  const ssize_t got = read(out_, piece.data(), piece.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) {
    printed_.append(piece.data(), static_cast<std::size_t>(got));
    if (printed_.size() > kMostPrinted) {
      finish(Error(ErrorCode::unavailable,
                   fmt::format("the credential plug-in {} printed more than 1 MiB", name_)));
    }
    return;
  }
  stop_reading();
  look_for_end();
}

// Everything is read; the program ends any moment.
void ExecRun::look_for_end() {
  look_timer_ = 0;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) {
    look_timer_ = timers_.after(kLook, [this] { look_for_end(); });
    return;
  }
  pid_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return finish(std::move(printed_));
  const std::string how = WIFSIGNALED(status)
                              ? fmt::format("was ended by signal {}", WTERMSIG(status))
                              : fmt::format("failed with exit code {}", WEXITSTATUS(status));
  finish(Error(ErrorCode::unavailable,
               fmt::format("the credential plug-in {} {}; run it by hand to see why", name_, how)));
}

void ExecRun::finish(Result<std::string> result) {
  stop_reading();
  timers_.cancel(limit_timer_);
  timers_.cancel(look_timer_);
  Done done = std::move(done_);
  done(std::move(result));  // may have destroyed us
}

}  // namespace berth::kube
