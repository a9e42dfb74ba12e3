#include "kube/client/credentials.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "kube/client/certificate.h"
#include "kube/client/exec_plugin.h"
#include "kube/client/text.h"

namespace berth::kube {

namespace {

constexpr Duration kReadAgain{60'000};
constexpr Duration kPluginLimit{60'000};
// A credential this young is not doubted: its 401 has another cause.
constexpr Duration kYoung{5'000};

// A header's value ends at a line end, and what follows would be another header.
Result<std::string> clean_token(std::string_view text, std::string_view where) {
  const std::string_view token = trimmed(text);
  if (token.empty()) return invalid_argument(fmt::format("the token in {} is empty", where));
  const bool printable = std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; });
  if (!printable) {
    return invalid_argument(fmt::format("the token in {} has characters that no token has", where));
  }
  return std::string(token);
}

class KeptCredentials final : public Credentials {
 public:
  KeptCredentials(Access access, Poller& poller, Timers& timers, std::function<void()> changed)
      : access_(std::move(access)),
        poller_(poller),
        timers_(timers),
        changed_(std::move(changed)) {}

  ~KeptCredentials() override {
    timers_.cancel(read_timer_);
    timers_.cancel(plugin_timer_);
  }

  Result<void> start() {
    if (access_.identity.exec.has_value()) return success();
    TRY(CredentialSet set, make_set());
    current_ = std::make_shared<const CredentialSet>(std::move(set));
    const Identity& identity = access_.identity;
    const bool from_files = !identity.token_file.empty() || !identity.certificate_file.empty() ||
                            !identity.key_file.empty() || !access_.ca_file.empty();
    if (from_files) read_later();
    return success();
  }

  std::shared_ptr<const CredentialSet> current() override {
    if (access_.identity.exec.has_value() && plugin_is_over()) {
      current_ = nullptr;
      run_plugin();
    }
    return current_;
  }

  bool rejected(const std::shared_ptr<const CredentialSet>& used) override {
    if (used != current_) return true;
    if (!access_.identity.exec.has_value()) return read_again();
    if (timers_.clock().now() - plugin_answered_ < kYoung) return false;
    plugin_ = {};
    current_ = nullptr;
    run_plugin();
    return true;
  }

  std::string trouble() const override { return trouble_; }

 private:
  // Whether the plug-in's credential has ended, or there is none yet.
  bool plugin_is_over() const {
    if (current_ == nullptr) return true;
    return plugin_.expires_us.has_value() && *plugin_.expires_us <= timers_.clock().wall_us();
  }

  void read_later() {
    read_timer_ = timers_.after(kReadAgain, [this] {
      read_later();
      read_again();
    });
  }

  // Whether there is something new. What cannot be read leaves what we have.
  bool read_again() {
    Result<CredentialSet> set = make_set();
    trouble_ = set.ok() ? "" : set.error().message();
    if (!set.ok() || (current_ != nullptr && *set == *current_)) return false;
    current_ = std::make_shared<const CredentialSet>(std::move(set).value());
    changed_();
    return true;
  }

  Result<CredentialSet> make_set() {
    CredentialSet set;
    set.ca_pem = access_.ca_pem;
    if (!access_.ca_file.empty()) {
      TRY(set.ca_pem, read_small_file(access_.ca_file));
      access_.ca_pem = set.ca_pem;
    }
    TRY_VOID(add_certificate(set));
    TRY_VOID(add_authorization(set));
    const Identity& identity = access_.identity;
    const auto impersonate = [&set](std::string_view header, const std::string& value) {
      if (!value.empty()) set.headers.push_back(fmt::format("Impersonate-{}: {}", header, value));
    };
    impersonate("User", identity.as_user);
    impersonate("Uid", identity.as_uid);
    for (const std::string& group : identity.as_groups)
      impersonate("Group", group);
    for (const auto& [key, value] : identity.as_extra) {
      impersonate("Extra-" + url_encoded(key), value);
    }
    return set;
  }

  Result<void> add_certificate(CredentialSet& set) const {
    const Identity& identity = access_.identity;
    set.certificate_pem = identity.certificate_pem;
    set.key_pem = identity.key_pem;
    if (!identity.certificate_file.empty()) {
      TRY(set.certificate_pem, read_small_file(identity.certificate_file));
    }
    if (!identity.key_file.empty()) {
      TRY(set.key_pem, read_small_file(identity.key_file));
    }
    if (!plugin_.certificate_pem.empty()) {
      set.certificate_pem = plugin_.certificate_pem;
      set.key_pem = plugin_.key_pem;
    }
    if (set.certificate_pem.empty()) return success();
    const std::string& file = identity.certificate_file;
    const std::string name =
        file.empty() ? "client certificate of " + access_.origin : "client certificate " + file;
    const Result<std::int64_t> end = certificate_end_us(set.certificate_pem);
    if (!end.ok()) {
      return invalid_argument(
          fmt::format("the {} cannot be used: {}", name, end.error().message()));
    }
    if (*end <= timers_.clock().wall_us()) {
      return invalid_argument(
          fmt::format("the {} expired on {}; get a new one", name, day_and_minute(*end)));
    }
    return success();
  }

  // Which of several wins: exec, token file, token, password.
  Result<void> add_authorization(CredentialSet& set) const {
    const Identity& identity = access_.identity;
    std::string token = identity.token;
    std::string where = access_.origin;
    if (!identity.token_file.empty()) {
      TRY(token, read_small_file(identity.token_file));
      where = identity.token_file;
    }
    if (identity.exec.has_value()) {
      token = plugin_.token;
      where = "the answer of " + identity.exec->command;
    }
    if (!token.empty() || !identity.token_file.empty()) {
      TRY(const std::string clean, clean_token(token, where));
      set.headers.push_back("Authorization: Bearer " + clean);
    } else if (!identity.username.empty() && !identity.exec.has_value()) {
      set.headers.push_back("Authorization: Basic " +
                            to_base64(identity.username + ":" + identity.password));
    }
    return success();
  }

  void run_plugin() {
    if (run_ != nullptr) return;
    timers_.cancel(plugin_timer_);
    plugin_timer_ = 0;
    const ExecPlugin& plugin = *access_.identity.exec;
    run_ = std::make_unique<ExecRun>(
        plugin, exec_info(plugin, access_), poller_, timers_, kPluginLimit,
        [this](Result<std::string> printed) { plugin_ended(std::move(printed)); });
  }

  void plugin_ended(Result<std::string> printed) {
    const std::unique_ptr<ExecRun> ended = std::move(run_);  // destroyed at the end
    Result<void> done = success();
    if (printed.ok()) {
      done = take(read_exec_credential(*printed, *access_.identity.exec));
    } else {
      done = std::move(printed).error();
    }
    trouble_ = done.ok() ? "" : done.error().message();
    changed_();
  }

  Result<void> take(Result<ExecCredential> credential) {
    TRY(ExecCredential fresh, std::move(credential));
    if (fresh.expires_us.has_value() && *fresh.expires_us <= timers_.clock().wall_us()) {
      return Error(ErrorCode::unavailable,
                   fmt::format("the credential plug-in {} printed a credential that ended on {}; "
                               "check it and the clock",
                               access_.identity.exec->command, day_and_minute(*fresh.expires_us)));
    }
    plugin_ = std::move(fresh);
    plugin_answered_ = timers_.clock().now();
    TRY(CredentialSet set, make_set());
    current_ = std::make_shared<const CredentialSet>(std::move(set));
    if (plugin_.expires_us.has_value()) {
      const std::int64_t left_ms = (*plugin_.expires_us - timers_.clock().wall_us()) / 1'000;
      plugin_timer_ = timers_.after(Duration(std::max(left_ms * 4 / 5, std::int64_t{1'000})),
                                    [this] { run_plugin(); });
    }
    return success();
  }

  Access access_;
  Poller& poller_;
  Timers& timers_;
  std::function<void()> changed_;
  std::shared_ptr<const CredentialSet> current_;
  std::string trouble_;
  ExecCredential plugin_;
  Time plugin_answered_{-1'000'000};
  std::unique_ptr<ExecRun> run_;
  Timers::Id read_timer_ = 0;
  Timers::Id plugin_timer_ = 0;
};

}  // namespace

Result<std::unique_ptr<Credentials>> Credentials::make(const Access& access, Poller& poller,
                                                       Timers& timers,
                                                       std::function<void()> changed) {
  auto kept = std::make_unique<KeptCredentials>(access, poller, timers, std::move(changed));
  TRY_VOID(kept->start());
  return std::unique_ptr<Credentials>(std::move(kept));
}

}  // namespace berth::kube
