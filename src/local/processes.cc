#include "local/processes.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <dirent.h>

#include <fmt/format.h>

#include "base/printable.h"
#include "local/files.h"

namespace berth::local {

namespace {

// The next part of `text` up to `end`, which is taken away with it.
std::string_view take(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

template <typename Number>
bool number(std::string_view text, Number& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && rest == text.data() + text.size();
}

}  // namespace

std::string named(const Process& process) {
  return fmt::format("pid {} ({})", process.key.pid, printable(process.name));
}

std::optional<Process> parse_stat(std::string_view text) {
  // pid (name) state parent …; the name may hold blanks and parentheses itself.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
      open == 0 || close + 2 >= text.size())
    return std::nullopt;
  Process process;
  process.name = text.substr(open + 1, close - open - 1);
  if (!number(text.substr(0, open - 1), process.key.pid)) return std::nullopt;
  std::string_view rest = text.substr(close + 2);
  const std::string_view state = take(rest, ' ');
  if (state.size() != 1) return std::nullopt;
  process.state = state.front();
  if (!number(take(rest, ' '), process.parent) || !number(take(rest, ' '), process.group) ||
      !number(take(rest, ' '), process.session))
    return std::nullopt;
  constexpr int kThreads = 20;  // counted from 1 at the pid, as proc(5) does; 7 is next
  constexpr int kStart = 22;
  for (int field = 7; field < kThreads; ++field)
    take(rest, ' ');
  if (!number(take(rest, ' '), process.threads)) return std::nullopt;
  for (int field = kThreads + 1; field < kStart; ++field)
    take(rest, ' ');
  if (!number(take(rest, ' '), process.key.start_ticks)) return std::nullopt;
  return process;
}

std::vector<std::string> parse_cgroups(std::string_view text) {
  std::vector<std::string> paths;
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    take(line, ':');
    take(line, ':');
    if (line.size() < 2 || line.front() != '/' || line.starts_with("/..")) continue;
    if (std::ranges::find(paths, line) == paths.end()) paths.emplace_back(line);
  }
  return paths;
}

std::optional<std::string> environment_value(std::string_view environ, std::string_view name) {
  while (!environ.empty()) {
    std::string_view entry = take(environ, '\0');
    if (take(entry, '=') == name) return std::string(entry);
  }
  return std::nullopt;
}

Processes::Processes(std::string root) : root_(std::move(root)) {}

std::optional<std::string> Processes::file(std::int64_t pid, std::string_view name) const {
  return read_file(fmt::format("{}/{}/{}", root_, pid, name));
}

const Process* Processes::find(std::int64_t pid) const {
  auto found = known_.find(pid);
  if (found == known_.end()) {
    if (all_known_ || pid <= 0) return nullptr;
    std::optional<Process> read;
    if (const auto text = file(pid, "stat")) read = parse_stat(*text);
    found = known_.emplace(pid, std::move(read)).first;
  }
  return found->second ? &*found->second : nullptr;
}

const Process* Processes::find(const ProcessKey& key) const {
  const Process* found = find(key.pid);
  return found != nullptr && found->key == key ? found : nullptr;
}

std::vector<const Process*> Processes::all() const {
  if (!all_known_) {
    if (DIR* directory = opendir(root_.c_str()); directory != nullptr) {
      while (const dirent* entry = readdir(directory)) {  // NOLINT(concurrency-mt-unsafe): own DIR
        std::int64_t pid = 0;
        if (number(std::string_view(entry->d_name), pid)) find(pid);
      }
      closedir(directory);
    }
    all_known_ = true;
  }
  std::vector<const Process*> list;
  for (const auto& [pid, process] : known_) {
    if (process) list.push_back(&*process);
  }
  return list;
}

const std::vector<std::string>& Processes::cgroups(std::int64_t pid) const {
  auto found = cgroups_.find(pid);
  if (found == cgroups_.end())
    found = cgroups_.emplace(pid, parse_cgroups(file(pid, "cgroup").value_or(""))).first;
  return found->second;
}

std::optional<std::uint32_t> Processes::uid(std::int64_t pid) const {
  auto found = uids_.find(pid);
  if (found == uids_.end()) {
    std::optional<std::uint32_t> uid;
    const std::string text = file(pid, "status").value_or("");
    if (const std::size_t at = text.find("\nUid:\t"); at != std::string::npos) {
      std::string_view rest = std::string_view(text).substr(at + 6);
      std::uint32_t value = 0;
      if (number(take(rest, '\t'), value)) uid = value;
    }
    found = uids_.emplace(pid, uid).first;
  }
  return found->second;
}

const Processes::Environment& Processes::environment(std::int64_t pid) const {
  auto found = environments_.find(pid);
  if (found == environments_.end()) {
    Environment environment;
    if (const auto text = file(pid, "environ")) {
      environment.readable = true;
      environment.lease = environment_value(*text, "BERTH_LEASE_ID").value_or("");
      environment.journal = environment_value(*text, "BERTH_JOURNAL_ID").value_or("");
    }
    found = environments_.emplace(pid, std::move(environment)).first;
  }
  return found->second;
}

const std::string& Processes::boot_id() const {
  if (!boot_id_) {
    boot_id_ = read_file(root_ + "/sys/kernel/random/boot_id").value_or("");
    while (boot_id_->ends_with('\n'))
      boot_id_->pop_back();
  }
  return *boot_id_;
}

}  // namespace berth::local
