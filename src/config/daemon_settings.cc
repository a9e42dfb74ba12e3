// The table of every key of a daemon's configuration file.
#include <array>
#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "config/daemon_file.h"
#include "config/written.h"
#include "core/placement/registry.h"

namespace berth::config {

namespace {

struct Range {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int32_t>::max();
};

constexpr std::array<std::pair<std::string_view, Overuse>, 3> kOveruse = {
    {{"report", Overuse::report}, {"block", Overuse::block}, {"kill", Overuse::kill}}};
constexpr std::array<std::pair<std::string_view, BurstEnd>, 2> kBurstEnds = {
    {{"report", BurstEnd::report}, {"end", BurstEnd::end}}};
constexpr std::array<std::pair<std::string_view, LogLevel>, 3> kLevels = {
    {{"info", LogLevel::info}, {"warning", LogLevel::warning}, {"error", LogLevel::error}}};

template <typename T>
constexpr auto words_of() {
  if constexpr (std::same_as<T, Overuse>) {
    return std::span<const std::pair<std::string_view, T>>(kOveruse);
  } else if constexpr (std::same_as<T, BurstEnd>) {
    return std::span<const std::pair<std::string_view, T>>(kBurstEnds);
  } else {
    return std::span<const std::pair<std::string_view, T>>(kLevels);
  }
}

// --- one value of each type: read, and written
// ----------------------------------------------------

Result<void> read_value(const Value& value, Range /*range*/, bool& into) {
  TRY(into, value.truth());
  return success();
}

Result<void> read_value(const Value& value, Range range, std::int64_t& into) {
  TRY(into, value.number(range.least, range.most));
  return success();
}

Result<void> read_value(const Value& value, Range range, Duration& into) {
  TRY(into, value.duration());
  if (into.count() < range.least || into.count() > range.most) {
    return value.error(fmt::format("from {} to {} is possible", written(Duration(range.least)),
                                   written(Duration(range.most))));
  }
  return success();
}

Result<void> read_value(const Value& value, Range /*range*/, Memory& into) {
  TRY(into, value.memory());
  return success();
}

Result<void> read_value(const Value& value, Range /*range*/, std::string& into) {
  TRY(into, value.word());
  return success();
}

// No ranges of names: a path may hold "..".
Result<void> read_value(const Value& value, Range /*range*/, std::vector<std::string>& into) {
  TRY(const std::vector<Value> items, value.items());
  std::vector<std::string> words;
  for (const Value& item : items) {
    TRY(std::string word, item.word());
    words.push_back(std::move(word));
  }
  into = std::move(words);
  return success();
}

template <typename T>
  requires std::is_enum_v<T>
Result<void> read_value(const Value& value, Range /*range*/, T& into) {
  TRY(into, value.choice(words_of<T>()));
  return success();
}

template <typename T>
Result<void> read_value(const Value& value, Range range, std::optional<T>& into) {
  T read{};
  TRY_VOID(read_value(value, range, read));
  into = std::move(read);
  return success();
}

template <typename T>
std::string text_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    for (const auto& [word, meaning] : words_of<T>()) {
      if (meaning == value) return std::string(word);
    }
    return {};
  } else {
    return written(value);
  }
}

template <typename T>
std::string text_of(const std::optional<T>& value) {
  return value.has_value() ? text_of(*value) : std::string();
}

// A row, from a function that says where in the configuration the value lies.
template <auto Of, Range Limits = Range{}>
constexpr Setting row(std::string_view section, Takes takes, KeyDoc doc,
                      std::string_view otherwise = {}) {
  return {.section = section,
          .doc = doc,
          .otherwise = otherwise,
          .takes = takes,
          .read = [](const Value& value,
                     DaemonConfig& into) { return read_value(value, Limits, Of(into)); },
          .write = [](const DaemonConfig& config) { return text_of(Of(config)); },
          .copy = [](const DaemonConfig& from, DaemonConfig& into) { Of(into) = Of(from); }};
}

constexpr Range kLong = {.least = 1'000, .most = std::int64_t{366} * 24 * 3'600'000};
constexpr Range kMayBeZero = {.least = 0, .most = kLong.most};

#define AT(member) [](auto& config) -> auto& { return config.member; }

Result<void> read_policy(const Value& value, DaemonConfig& into) {
  TRY(into.policy, value.word());
  if (const auto made = core::make_policy(into.policy, {}); !made.ok()) {
    return value.error(made.error().message());
  }
  return success();
}

constexpr Setting policy_row(KeyDoc doc) {
  Setting setting = row<AT(policy)>("", Takes::at_reload, doc);
  setting.read = read_policy;
  return setting;
}

constexpr auto kSettings = std::to_array<Setting>({
    row<AT(listen)>(
        "", Takes::at_restart,
        {.name = "listen",
         .type = "list of text",
         .summary = "where it listens: `unix:/path`, or `host:port` with TLS and tokens",
         .example = "[unix:/run/berth/berth.sock, \"0.0.0.0:7443\"]"},
        "`unix:/run/berth/berth.sock` for root, else below $XDG_RUNTIME_DIR"),
    row<AT(state_dir)>("", Takes::at_restart,
                       {.name = "state_dir",
                        .type = "text",
                        .summary = "the folder of the journal: every promise is written there "
                                   "before its answer leaves",
                        .example = "/var/lib/berth"},
                       "`/var/lib/berth` for root, else `~/.local/state/berth`"),
    row<AT(node)>("", Takes::at_restart,
                  {.name = "node",
                   .type = "text",
                   .summary = "this machine's name in the fleet",
                   .example = "lab1"},
                  "the host's name"),
    row<AT(queues_files)>("", Takes::at_restart,
                          {.name = "queues_file",
                           .type = "list of text",
                           .summary = "the quota tree (docs/queues.md); several files are one "
                                      "tree. What they say is read again at a reload",
                           .example = "/etc/berth/queues.yaml"},
                          "one queue `default` without quota"),
    policy_row({.name = "policy",
                .type = "text",
                .summary = "placement where a queue or a request names none (`berth policies`)",
                .example = "spread"}),
    row<AT(admins)>("", Takes::at_restart,
                    {.name = "admins",
                     .type = "list of text",
                     .summary = "users of this machine, by name or number, who see and end the "
                                "leases of all; root and the daemon's own user always do",
                     .example = "[alice, 1001]"},
                    "nobody else"),
    row<AT(tokens_file)>("", Takes::at_restart,
                         {.name = "tokens_file",
                          .type = "text",
                          .summary = "who may come over TCP (`berth token new`). What it says is "
                                     "read again at a reload",
                          .example = "/etc/berth/tokens"},
                         "nobody comes over TCP"),
    row<AT(overuse)>("", Takes::at_reload,
                     {.name = "overuse",
                      .type = "report, block or kill",
                      .summary = "what happens when a lease uses more than its limit: a line in "
                                 "the log and a count; also no new work for its device; also its "
                                 "end after the grace time",
                      .example = "report"}),

    row<AT(tls.certificate)>("tls", Takes::at_restart,
                             {.name = "certificate",
                              .type = "text",
                              .summary = "PEM: the chain, the server's own certificate first. "
                                         "Read again at a reload",
                              .example = "/etc/berth/tls.pem"},
                             "no TLS"),
    row<AT(tls.key)>("tls", Takes::at_restart,
                     {.name = "key",
                      .type = "text",
                      .summary = "PEM: its key. Read again at a reload",
                      .example = "/etc/berth/tls.key"},
                     "no TLS"),
    row<AT(tls.plain_loopback)>("tls", Takes::at_restart,
                                {.name = "plain_loopback",
                                 .type = "true or false",
                                 .summary = "TCP without TLS on 127.0.0.1 and ::1; tokens are "
                                            "needed still",
                                 .example = "true"}),

    row<AT(gpu.enabled)>("gpu", Takes::at_reload,
                         {.name = "enabled",
                          .type = "true or false",
                          .summary = "false: whoever asks for a GPU is refused, with the reason "
                                     "`gpu-disabled`",
                          .example = "false"}),
    row<AT(gpu.nvml)>("gpu", Takes::at_restart,
                      {.name = "nvml",
                       .type = "true or false",
                       .summary = "ask NVIDIA's driver on this machine",
                       .example = "false"}),
    row<AT(gpu.library)>("gpu", Takes::at_restart,
                         {.name = "library",
                          .type = "text",
                          .summary = "the driver's library, a name or a path",
                          .example = "/usr/lib/libnvidia-ml.so.1"}),
    row<AT(gpu.dcgm)>("gpu", Takes::at_restart,
                      {.name = "dcgm",
                       .type = "list of text",
                       .summary = "pages of dcgm-exporter, one per node; asked when the driver "
                                  "does not answer",
                       .example = "[\"http://gpu1:9400/metrics\"]"},
                      "none"),
    row<AT(gpu.prometheus)>("gpu", Takes::at_restart,
                            {.name = "prometheus",
                             .type = "text",
                             .summary = "a Prometheus that scrapes dcgm-exporter; asked when "
                                        "nothing above answers",
                             .example = "\"http://prometheus:9090\""},
                            "none"),
    row<AT(gpu.prometheus_selector)>("gpu", Takes::at_restart,
                                     {.name = "prometheus_selector",
                                      .type = "text",
                                      .summary = "which of its series are meant",
                                      .example = "\"{app='nvidia-dcgm-exporter'}\""},
                                     "all DCGM_FI_DEV_FB_… series"),
    row<AT(gpu.sampling), Range{.least = 50, .most = 3'600'000}>(
        "gpu", Takes::at_restart,
        {.name = "sampling",
         .type = "duration",
         .summary = "how often the devices are looked at",
         .example = "500ms"}),
    row<AT(gpu.max_sample_age), kLong>("gpu", Takes::at_restart,
                                       {.name = "max_sample_age",
                                        .type = "duration",
                                        .summary = "a device whose sample is older takes nothing "
                                                   "new (reason `stale-samples`)",
                                        .example = "10s"},
                                       "three times `sampling`"),
    row<AT(gpu.ledger_only)>("gpu", Takes::at_restart,
                             {.name = "ledger_only",
                              .type = "true or false",
                              .summary = "while no source answers, grant on what the devices are "
                                         "known to have; false: wait (reason `no-source`)",
                              .example = "true"}),
    row<AT(gpu.margin)>("gpu", Takes::at_restart,
                        {.name = "margin",
                         .type = "memory",
                         .summary = "kept back on every device beside the driver's own reserve",
                         .example = "256MiB"}),
    row<AT(gpu.guard)>("gpu", Takes::at_restart,
                       {.name = "guard",
                        .type = "text",
                        .summary = "library that holds the limits inside of programs; `none`: "
                                   "limits are advisory",
                        .example = "/usr/lib/berth/libberth_guard.so"},
                       "the one that came with the program"),

    row<AT(leases.confirm), kLong>("leases", Takes::at_reload,
                                   {.name = "confirm",
                                    .type = "duration",
                                    .summary = "a grant must be confirmed within this, else it "
                                               "expires (G)",
                                    .example = "5min"}),
    row<AT(leases.ttl), kLong>("leases", Takes::at_reload,
                               {.name = "ttl",
                                .type = "duration",
                                .summary = "an active lease must be renewed within this, else it "
                                           "is suspect (T); from its next renewal on",
                                .example = "2min"}),
    row<AT(leases.silence), kLong>("leases", Takes::at_reload,
                                   {.name = "silence",
                                    .type = "duration",
                                    .summary = "a waiting lease must be heard of within this, "
                                               "else it expires (W)",
                                    .example = "5min"}),
    row<AT(leases.forced), kMayBeZero>("leases", Takes::at_reload,
                                       {.name = "forced",
                                        .type = "duration",
                                        .summary = "a suspect or ending lease is freed after "
                                                   "this even if its process lives (F); 0s: never",
                                        .example = "1h"}),
    row<AT(leases.age_memory), kMayBeZero>("leases", Takes::at_reload,
                                           {.name = "age_memory",
                                            .type = "duration",
                                            .summary = "who reserves again within this after a "
                                                       "loss keeps the place in the queue (A)",
                                            .example = "1h"}),
    row<AT(leases.keep_ended), kMayBeZero>("leases", Takes::at_reload,
                                           {.name = "keep_ended",
                                            .type = "duration",
                                            .summary = "ended leases can be read so long (D)",
                                            .example = "1d"}),

    row<AT(limits.device_cap), Range{.least = 1, .most = 10'000}>(
        "limits", Takes::at_restart,
        {.name = "device_cap",
         .type = "number",
         .summary = "most leases on one device; 1: one job per card",
         .example = "4"},
        "memory alone decides"),
    row<AT(limits.overcommit_percent), Range{.least = 100, .most = 10'000}>(
        "limits", Takes::at_restart,
        {.name = "overcommit_percent",
         .type = "percent",
         .summary = "most that the burst limits on a device may come to together, of what is "
                    "usable; claims never exceed 100",
         .example = "150"}),
    row<AT(limits.waiting_per_owner), Range{.least = 1, .most = 1'000'000}>(
        "limits", Takes::at_reload,
        {.name = "waiting_per_owner",
         .type = "number",
         .summary = "most leases of one owner that wait; beyond, 429 `too-many-waiting`",
         .example = "500"}),
    row<AT(limits.ended_leases), Range{.least = 0, .most = 10'000'000}>(
        "limits", Takes::at_reload,
        {.name = "ended_leases",
         .type = "number",
         .summary = "most ended leases that are kept; the oldest are forgotten first",
         .example = "10000"}),
    row<AT(limits.max_connections), Range{.least = 8, .most = 1'000'000}>(
        "limits", Takes::at_restart,
        {.name = "max_connections",
         .type = "number",
         .summary = "most connections at a time, as far as the limit of open files allows; "
                    "beyond, 503",
         .example = "2000"}),
    row<AT(limits.connections_per_user), Range{.least = 0, .most = 1'000'000}>(
        "limits", Takes::at_restart,
        {.name = "connections_per_user",
         .type = "number",
         .summary = "most of one local user who is no administrator; 0: three quarters of all",
         .example = "500"}),

    row<AT(evictions.grace), kMayBeZero>("evictions", Takes::at_reload,
                                         {.name = "grace",
                                          .type = "duration",
                                          .summary = "from the notice that a lease has to leave "
                                                     "to its end",
                                          .example = "30s"}),

    row<AT(burst.grace), kMayBeZero>("burst", Takes::at_reload,
                                     {.name = "grace",
                                      .type = "duration",
                                      .summary = "how long use above a request may keep a waiting "
                                                 "claim from the room it needs",
                                      .example = "60s"}),
    row<AT(burst.policy)>("burst", Takes::at_reload,
                          {.name = "policy",
                           .type = "report or end",
                           .summary = "what happens then: it is told in the log and in the waiting "
                                      "verdict; or the work that uses most of it has to leave",
                           .example = "end"}),

    row<AT(log.level)>("log", Takes::at_reload,
                       {.name = "level",
                        .type = "info, warning or error",
                        .summary = "the least important lines that are written",
                        .example = "warning"}),
});

#undef AT

}  // namespace

std::span<const Setting> daemon_settings() { return kSettings; }

}  // namespace berth::config
