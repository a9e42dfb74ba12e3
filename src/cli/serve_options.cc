#include "cli/serve_options.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <ostream>
#include <pwd.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "cli/build_info.h"
#include "cli/fleet_words.h"
#include "cli/usual_places.h"
#include "config/queue_file.h"
#include "config/value.h"
#include "net/target.h"
#include "net/token.h"
#include "scenario/script.h"
#include "sim/files.h"
#include "sim/words.h"

namespace berth::cli {

namespace {

constexpr const char* kSystemFile = "/etc/berth/berth.yaml";

Result<core::QueueConfig> read_queues(const std::vector<std::string>& files,
                                      const std::vector<std::string>& classes, Console& console) {
  config::QueueReader reader;
  for (const std::string& path : files) {
    TRY(const std::string text, sim::read_input_file(path));
    reader.add_file(text, path);
  }
  config::QueueFile file = std::move(reader).finish(classes);
  if (file.refused()) {
    return file.refusals();
  }
  if (!file.complaints.empty()) {
    console.err << printable_lines(file.text()) << "\n";
  }
  return std::move(file.config);
}

core::Node this_machine(std::string name) {
  core::Node node;
  if (name.empty()) {
    char host[256] = {};
    gethostname(host, sizeof(host) - 1);
    name = host;
  }
  node.name = std::move(name);
  node.cpu = Milli{std::max<std::int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1) * 1000};
  node.ram = Memory::bytes(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE));
  node.pod_slots = 1'000'000;
  return node;
}

// A user of this machine, by name or number.
Result<std::uint32_t> user_id(const std::string& user) {
  if (const auto number = config::parse_count(user, UINT32_MAX - 1); number.ok()) {
    return static_cast<std::uint32_t>(*number);
  }
  const passwd* found = getpwnam(user.c_str());
  if (found == nullptr) {
    return invalid_argument(fmt::format("no user of this machine is called {}", printable(user)));
  }
  return found->pw_uid;
}

// What was said on the command line, in place of what the file says.
Result<void> overlay(const Arguments& arguments, config::DaemonConfig& config) {
  const auto take = [&](std::string_view name, std::string& into) {
    if (arguments.has(name)) {
      into = *arguments.value(name);
    }
  };
  const auto take_all = [&](std::string_view name, std::vector<std::string>& into) {
    if (arguments.has(name)) {
      into = arguments.values(name);
    }
  };
  take_all("--listen", config.listen);
  take("--state", config.state_dir);
  take("--policy", config.policy);
  take("--node", config.node);
  take("--tokens", config.tokens_file);
  take("--tls-certificate", config.tls.certificate);
  take("--tls-key", config.tls.key);
  config.tls.plain_loopback = config.tls.plain_loopback || arguments.has("--plain-loopback");
  take("--guard", config.gpu.guard);
  take_all("--dcgm", config.gpu.dcgm);
  take("--prometheus", config.gpu.prometheus);
  if (arguments.has("--nvml")) {
    const std::string library = *arguments.value("--nvml");
    config.gpu.nvml = library != "none";
    config.gpu.library = config.gpu.nvml ? library : config.gpu.library;
  }
  if (const auto files = arguments.value("--queues")) {
    config.queues_files.clear();
    for (const std::string_view path : sim::split_at(*files, ',')) {
      config.queues_files.emplace_back(path);
    }
  }
  if (arguments.has("--sampling")) {
    TRY(config.gpu.sampling, config::parse_duration(*arguments.value("--sampling")));
  }
  return {};
}

struct Settings {
  config::DaemonConfig config;
  std::string file;  // empty: none was read
};

Result<Settings> read_settings(const Arguments& arguments) {
  Settings settings;
  const std::string named = arguments.value("--config").value_or("");
  if (named.empty()) {
    settings.file = default_config_file().value_or("");
  } else if (named != "none") {
    settings.file = named;
  }
  if (!settings.file.empty()) {
    TRY(config::DaemonFile file, load_daemon_file(settings.file));
    settings.config = std::move(file.config);
  }
  TRY_VOID(overlay(arguments, settings.config));
  return settings;
}

// What a reload changes, a line each; the settings as they are now.
Result<lease::ServiceConfig> read_again(const Arguments& arguments, config::DaemonConfig& now,
                                        ServeLog& log) {
  TRY(Settings settings, read_settings(arguments));
  const std::vector<config::Change> changes = config::changes_between(now, settings.config);
  for (const config::Change& change : changes) {
    log.line(change.takes == config::Takes::at_reload ? "info" : "warning",
             "reload: " + change.text());
  }
  if (changes.empty()) {
    log.line("info", "reload: the settings are the same");
  }
  log.set_level(settings.config.log.level);
  // What needs a restart is told again at every reload until then.
  for (const config::Setting& setting : config::daemon_settings()) {
    if (setting.takes == config::Takes::at_reload) {
      setting.copy(settings.config, now);
    }
  }
  return service_config(now);
}

void take_simulation(serve::DaemonOptions& options, const std::string& name) {
  for (const core::Node& node : *options.simulated) {
    if (node.name == name) {
      options.node = node;
      options.node.devices.clear();
      options.node.links.clear();
    }
  }
}

// Programs would be started with a library that is not there, and run without a limit.
Result<void> check_guard(const std::string& guard) {
  if (!guard.contains('/') || access(guard.c_str(), R_OK) == 0) {
    return {};
  }
  return invalid_argument(fmt::format(
      "the guard library {} cannot be read: {}; install it, or write none for limits that are "
      "advisory",
      printable(guard), std::strerror(errno)));
}

// A socket named from the folder of the caller.
std::string with_whole_path(std::string address) {
  if (address.starts_with("unix:") && !address.starts_with("unix:/")) {
    return "unix:" + std::filesystem::absolute(address.substr(5)).string();
  }
  return address;
}

Result<void> take_server(const config::DaemonConfig& config, net::ServerOptions& server) {
  server.listen = config.listen;
  for (std::string& address : server.listen) {
    address = with_whole_path(std::move(address));
  }
  server.inherited = net::take_inherited_sockets();
  server.token_file = config.tokens_file;
  server.certificate_file = config.tls.certificate;
  server.key_file = config.tls.key;
  server.allow_plain_loopback = config.tls.plain_loopback;
  server.max_connections = static_cast<std::size_t>(config.limits.max_connections);
  server.max_connections_per_user = static_cast<std::size_t>(config.limits.connections_per_user);
  for (const std::string& user : config.admins) {
    TRY(const std::uint32_t id, user_id(user));
    server.admin_uids.push_back(id);
  }
  return {};
}

void take_sources(const config::DaemonConfig& config, serve::SourceOptions& sources) {
  sources.use_nvml = config.gpu.nvml;
  sources.nvml.library = config.gpu.library;
  sources.nvml.safety_margin = config.gpu.margin;
  sources.dcgm = config.gpu.dcgm;
  sources.prometheus = config.gpu.prometheus;
  sources.prometheus_selector = config.gpu.prometheus_selector;
}

}  // namespace

namespace {

// Standard error is the journal's: systemd says so by device and inode (systemd.exec(5)).
bool is_journal() {
  const char* said = std::getenv("JOURNAL_STREAM");
  struct stat own{};
  return said != nullptr && fstat(STDERR_FILENO, &own) == 0 &&
         said == fmt::format("{}:{}", own.st_dev, own.st_ino);
}

}  // namespace

ServeLog::ServeLog(Console& console) : console_(console), in_journal_(is_journal()) {}

std::string_view ServeLog::mark(std::string_view level) const {
  return !in_journal_ ? "" : level == "error" ? "<3>" : level == "warning" ? "<4>" : "<6>";
}

void ServeLog::line(std::string_view level, std::string_view text) {
  const config::LogLevel rank = level == "error"     ? config::LogLevel::error
                                : level == "warning" ? config::LogLevel::warning
                                                     : config::LogLevel::info;
  if (rank < least_.load()) {
    return;
  }
  if (in_journal_) {
    const std::lock_guard lock(mutex_);
    console_.err << fmt::format("{}{} {}\n", mark(level), level, printable(text)) << std::flush;
    return;
  }
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  const std::lock_guard lock(mutex_);
  console_.err << fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z {} {}\n", parts.tm_year + 1900,
                              parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                              parts.tm_sec, level, printable(text))
               << std::flush;
}

Result<config::DaemonFile> load_daemon_file(const std::string& path) {
  TRY(const std::string text, sim::read_input_file(path));
  config::DaemonFile file = config::read_daemon_file(text, path);
  if (file.refused()) {
    return invalid_argument(file.text());
  }
  return file;
}

std::optional<std::string> default_config_file() {
  std::error_code error;
  return geteuid() == 0 && std::filesystem::exists(kSystemFile, error)
             ? std::optional<std::string>(kSystemFile)
             : std::nullopt;
}

std::vector<std::string> check_named(const config::DaemonFile& file, const std::string& path) {
  const config::DaemonConfig& config = file.config;
  std::vector<std::string> complaints;
  const auto complain = [&](const std::string& key, const std::string& text) {
    const auto at = file.places.find(key);
    const config::Place place = at == file.places.end() ? config::Place{} : at->second;
    complaints.push_back(
        fmt::format("{}:{}:{}: {}: {}", path, place.line, place.column, key, text));
  };
  const auto check_url = [&](const std::string& key, const std::string& address) {
    if (const auto parsed = net::parse_url(address); !parsed.ok()) {
      complain(key, parsed.error().message());
    }
  };
  std::set<std::string> seen;
  for (const std::string& address : config.listen) {
    if (const auto parsed = net::parse_listen(with_whole_path(address)); !parsed.ok()) {
      complain("listen", parsed.error().message());
    } else if (!seen.insert(with_whole_path(address)).second) {
      complain("listen", fmt::format("{} stands twice: keep one", printable(address)));
    }
  }
  for (const std::string& address : config.gpu.dcgm) {
    check_url("gpu.dcgm", address);
  }
  if (!config.gpu.prometheus.empty()) {
    check_url("gpu.prometheus", config.gpu.prometheus);
  }
  if (const auto guard = check_guard(config.gpu.guard); !guard.ok()) {
    complain("gpu.guard", guard.error().message());
  }
  for (const std::string& user : config.admins) {
    if (const auto id = user_id(user); !id.ok()) {
      complain("admins", id.error().message());
    }
  }
  if (!config.tokens_file.empty()) {
    if (const auto tokens = net::TokenSet::load(config.tokens_file); !tokens.ok()) {
      complain("tokens_file", tokens.error().message());
    }
  }
  for (const auto& [key, name] : {std::pair("tls.certificate", &config.tls.certificate),
                                  std::pair("tls.key", &config.tls.key)}) {
    if (!name->empty() && access(name->c_str(), R_OK) != 0) {
      complain(key, fmt::format("{} cannot be read", printable(*name)));
    }
  }
  config::QueueReader reader;
  for (const std::string& queues : config.queues_files) {
    if (const auto text = sim::read_input_file(queues); !text.ok()) {
      complain("queues_file", text.error().message());
    } else {
      reader.add_file(*text, queues);
    }
  }
  if (!config.queues_files.empty() && complaints.empty()) {
    for (const config::QueueComplaint& complaint : std::move(reader).finish({}).complaints) {
      complaints.push_back(complaint.text);
    }
  }
  return complaints;
}

config::DaemonConfig effective(config::DaemonConfig config) {
  if (config.listen.empty()) {
    config.listen.push_back("unix:" + own_socket());
  }
  if (config.state_dir.empty()) {
    config.state_dir = default_state_directory();
  }
  if (config.node.empty()) {
    config.node = this_machine({}).name;
  }
  if (config.gpu.guard.empty()) {
    config.gpu.guard = default_guard_library();
  }
  if (!config.gpu.max_sample_age.has_value()) {
    config.gpu.max_sample_age = Duration(3 * config.gpu.sampling.count());
  }
  return config;
}

lease::ServiceConfig service_config(const config::DaemonConfig& config) {
  lease::ServiceConfig service;
  service.engine.policy = config.policy;
  service.engine.max_sample_age =
      config.gpu.max_sample_age.value_or(Duration(3 * config.gpu.sampling.count()));
  service.engine.limit_overcommit_percent = config.limits.overcommit_percent;
  if (config.limits.device_cap.has_value()) {
    service.engine.device_cap = static_cast<int>(*config.limits.device_cap);
  }
  service.confirm = config.leases.confirm;
  service.ttl = config.leases.ttl;
  service.silence = config.leases.silence;
  service.forced = config.leases.forced;
  service.age_memory = config.leases.age_memory;
  service.keep_ended = config.leases.keep_ended;
  service.grace = config.evictions.grace;
  service.max_waiting_per_owner = static_cast<std::size_t>(config.limits.waiting_per_owner);
  service.max_ended = static_cast<std::size_t>(config.limits.ended_leases);
  service.gpu_enabled = config.gpu.enabled;
  service.ledger_only = config.gpu.ledger_only;
  service.overuse = config.overuse == config::Overuse::kill    ? lease::OverusePolicy::kill
                    : config.overuse == config::Overuse::block ? lease::OverusePolicy::block
                                                               : lease::OverusePolicy::report;
  service.burst_grace = config.burst.grace;
  service.burst = config.burst.policy == config::BurstEnd::end ? lease::BurstPolicy::end
                                                               : lease::BurstPolicy::report;
  return service;
}

Result<serve::DaemonOptions> serve_options(const Arguments& arguments, ServeLog& log) {
  TRY(Settings settings, read_settings(arguments));
  const config::DaemonConfig config = effective(settings.config);
  log.set_level(config.log.level);
  serve::DaemonOptions options;
  options.version = std::string(kVersion);
  options.log = [&log](std::string_view level, std::string_view text) { log.line(level, text); };
  // Absolute: programs find their limits below it from directories of their own.
  std::error_code no_directory;
  options.state_directory = std::filesystem::absolute(config.state_dir, no_directory).string();
  if (no_directory) {
    return invalid_argument(fmt::format(
        "state_dir {}: the working directory is gone; write an absolute path", config.state_dir));
  }
  // The journal is root's alone; the programs of users have to reach their limits.
  if (geteuid() == 0 && config.state_dir == default_state_directory()) {
    options.grants_directory = "/run/berth/grants";
  }
  options.sampling = config.gpu.sampling;
  options.service = service_config(config);
  if (settings.config.listen.empty()) {
    std::error_code error;
    std::filesystem::create_directories(
        std::filesystem::path(config.listen.front().substr(5)).parent_path(), error);
  }
  // A shell's 1024 would leave no room for a thousand who wait with a long poll and a stream each.
  options.open_files =
      net::raise_open_files(2 * static_cast<std::size_t>(config.limits.max_connections));
  TRY_VOID(take_server(config, options.server));
  take_sources(config, options.sources);
  std::string name = settings.config.node;
  std::vector<std::string> classes;
  if (const auto spec = arguments.value("--simulate")) {
    TRY(options.simulated, fleet_from(*spec, "--simulate"));
    classes = scenario::device_classes(*options.simulated);
    if (name.empty() && !options.simulated->empty()) {
      name = options.simulated->front().name;
    }
    options.manual_clock = arguments.value("--simulate-clock") == "manual";
  } else if (arguments.value("--simulate-clock") == "manual") {
    return invalid_argument("--simulate-clock manual goes with --simulate");
  }
  options.node = this_machine(name);
  if (options.simulated.has_value()) {
    take_simulation(options, name);
  }
  options.service.node = options.node.name;
  if (!config.queues_files.empty()) {
    options.read_queues = [files = config.queues_files, classes, &log] {
      return read_queues(files, classes, log.console());
    };
    TRY(options.service.queues, options.read_queues());
  }
  TRY_VOID(check_guard(config.gpu.guard));
  options.guard_library = config.gpu.guard == "none" ? std::string() : config.gpu.guard;
  if (options.guard_library.contains('/')) {  // a bare name is looked up by the program's loader
    options.guard_library = std::filesystem::absolute(options.guard_library, no_directory).string();
  }
  options.read_settings = [arguments, now = settings.config, &log]() mutable {
    return read_again(arguments, now, log);
  };
  if (!settings.file.empty()) {
    log.line("info", "configuration: " + settings.file);
  }
  return options;
}

}  // namespace berth::cli
