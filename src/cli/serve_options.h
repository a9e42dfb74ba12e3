// From words and configuration file to the options of the daemon; the words win.
//
//   ServeLog log(console);
//   TRY(serve::DaemonOptions options, serve_options(arguments, log));
//
// Thread-safety: ServeLog may be written to from any thread; the rest is one thread's.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "config/daemon_file.h"
#include "lease/service.h"
#include "serve/daemon.h"

namespace berth::cli {

// Lines "TIME LEVEL TEXT" on standard error, from a level on.
class ServeLog {
 public:
  explicit ServeLog(Console& console);

  void set_level(config::LogLevel least) { least_ = least; }
  void line(std::string_view level, std::string_view text);
  // What begins a line below systemd: its journal keeps the time itself, and the level as priority.
  std::string_view mark(std::string_view level) const;
  Console& console() { return console_; }

 private:
  Console& console_;
  bool in_journal_ = false;
  std::mutex mutex_;
  std::atomic<config::LogLevel> least_ = config::LogLevel::info;
};

// Reads a configuration file. Errors: invalid_argument with all its complaints.
Result<config::DaemonFile> load_daemon_file(const std::string& path);

// The file that the daemon of this user reads when none is named; nothing if it is not there.
std::optional<std::string> default_config_file();

// What the values name outside of the file: addresses, users, tokens, certificates, queues. One
// complaint each, with the place where it was said.
std::vector<std::string> check_named(const config::DaemonFile& file, const std::string& path);

// The same with the places filled in that depend on the user.
config::DaemonConfig effective(config::DaemonConfig config);

// The part of it that the service needs.
lease::ServiceConfig service_config(const config::DaemonConfig& config);

// Errors: invalid_argument, what is wrong with words or files.
Result<serve::DaemonOptions> serve_options(const Arguments& arguments, ServeLog& log);

}  // namespace berth::cli
