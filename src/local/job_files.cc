#include "local/job_files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/printable.h"

namespace berth::local {

namespace {

constexpr std::string_view kSpecForm = "berth-job-spec 1";
constexpr std::string_view kStateForm = "berth-job-state 1";
constexpr std::string_view kNextState = "state.next";
constexpr off_t kStateRoom = 4096;
constexpr std::size_t kMostMessage = 1000;  // a state fits its room

template <typename Number>
bool number(std::string_view text, Number& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && rest == text.data() + text.size();
}

std::string_view take(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

constexpr std::pair<JobEnd, std::string_view> kEnds[] = {
    {JobEnd::none, "none"},           {JobEnd::exited, "exited"},
    {JobEnd::signalled, "signalled"}, {JobEnd::not_started, "not-started"},
    {JobEnd::lost, "lost"},
};

std::string key_text(const ProcessKey& key) {
  return fmt::format("{} {}", key.pid, key.start_ticks);
}

bool key(std::string_view text, ProcessKey& value) {
  const std::string_view pid = take(text, ' ');
  return number(pid, value.pid) && number(text, value.start_ticks);
}

// One entry of a spec; false: a key or value that no spec has.
bool take_entry(std::string_view name, std::string_view value, JobSpec& spec) {
  if (name == "word") {
    spec.command.emplace_back(value);
  } else if (name == "env") {
    spec.environment.emplace_back(value);
  } else if (name == "directory") {
    spec.directory = value;
  } else if (name == "lease") {
    spec.lease = value;
  } else if (name == "cgroup") {
    spec.cgroup = value;
  } else if (name == "uid") {
    spec.user.emplace();
    return number(value, spec.user->uid);
  } else if (name == "gid") {
    return spec.user && number(value, spec.user->gid);
  } else if (name == "group") {
    return spec.user && number(value, spec.user->groups.emplace_back());
  } else if (name == "umask") {
    return number(value, spec.umask);
  } else if (name == "open_files") {
    return number(value, spec.open_files);
  } else {
    std::int64_t count = 0;
    if (!number(value, count)) return false;
    if (name == "max_ms") {
      spec.max_time = Duration(count);
    } else if (name == "grace_ms") {
      spec.grace = Duration(count);
    } else if (name == "log_bytes") {
      spec.log_bytes_per_file = count;
    } else if (name == "log_files") {
      spec.log_files = count;
    } else {
      return false;
    }
  }
  return true;
}

bool take_line(std::string_view name, std::string_view value, JobState& state) {
  if (name == "supervisor") return key(value, state.supervisor);
  if (name == "process") return key(value, state.process);
  if (name == "started") return number(value, state.started_at_ms);
  if (name == "ended") return number(value, state.ended_at_ms);
  if (name == "code") return number(value, state.code);
  if (name == "boot") {
    state.boot_id = value;
  } else if (name == "cgroup") {
    state.cgroup = value;
  } else if (name == "message") {
    state.message = value;
  } else if (name == "stopped_by") {
    state.stopped_by = value;
  } else if (name == "end") {
    const auto* found =
        std::ranges::find(kEnds, value, &std::pair<JobEnd, std::string_view>::second);
    if (found == std::end(kEnds)) return false;
    state.end = found->first;
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string encode(const JobSpec& spec) {
  std::string text(kSpecForm);
  const auto add = [&](std::string_view name, std::string_view value) {
    text += '\0';
    text += name;
    text += '=';
    text += value;
  };
  for (const std::string& word : spec.command)
    add("word", word);
  for (const std::string& entry : spec.environment)
    add("env", entry);
  add("directory", spec.directory);
  add("lease", spec.lease);
  add("cgroup", spec.cgroup);
  if (spec.user) {
    add("uid", std::to_string(spec.user->uid));
    add("gid", std::to_string(spec.user->gid));
    for (const std::uint32_t group : spec.user->groups)
      add("group", std::to_string(group));
  }
  add("umask", std::to_string(spec.umask));
  add("open_files", std::to_string(spec.open_files));
  if (spec.max_time) add("max_ms", std::to_string(spec.max_time->count()));
  add("grace_ms", std::to_string(spec.grace.count()));
  add("log_bytes", std::to_string(spec.log_bytes_per_file));
  add("log_files", std::to_string(spec.log_files));
  return text;
}

Result<JobSpec> decode_spec(std::string_view text) {
  if (take(text, '\0') != kSpecForm)
    return Error(ErrorCode::conflict, "it does not begin as the description of a job does");
  JobSpec spec;
  while (!text.empty()) {
    std::string_view entry = take(text, '\0');
    const std::string_view name = take(entry, '=');
    if (!take_entry(name, entry, spec)) {
      return Error(ErrorCode::conflict,
                   fmt::format("its entry {} cannot be \"{}\"", printable(name), printable(entry)));
    }
  }
  if (spec.command.empty()) return Error(ErrorCode::conflict, "it names no program");
  return spec;
}

std::string encode(const JobState& state) {
  std::string text = fmt::format("{}\n", kStateForm);
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty())
      text += fmt::format("{} {}\n", name, shortened(printable(value), kMostMessage));
  };
  add("supervisor", key_text(state.supervisor));
  add("process", key_text(state.process));
  add("boot", state.boot_id);
  add("cgroup", state.cgroup);
  add("started", std::to_string(state.started_at_ms));
  add("ended", std::to_string(state.ended_at_ms));
  const auto* end =
      std::ranges::find(kEnds, state.end, &std::pair<JobEnd, std::string_view>::first);
  add("end", end->second);
  add("code", std::to_string(state.code));
  add("message", state.message);
  add("stopped_by", state.stopped_by);
  return text;
}

std::optional<JobState> decode_state(std::string_view text) {
  if (take(text, '\n') != kStateForm) return std::nullopt;
  JobState state;
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    const std::string_view name = take(line, ' ');
    if (!take_line(name, line, state)) return std::nullopt;
  }
  return state;
}

std::string JobFiles::path(std::string_view name) const {
  return fmt::format("{}/{}", directory_, name);
}

Result<void> JobFiles::write_whole(const std::string& name, std::string_view text,
                                   bool durable) const {
  const std::string next = path(name + ".next");
  const Descriptor file(open(next.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return system_error("make", next, errno);
  int failed = write_all(file.get(), text);
  if (failed == 0 && ftruncate(file.get(), static_cast<off_t>(text.size())) != 0) failed = errno;
  if (failed == 0 && durable && fsync(file.get()) != 0) failed = errno;
  if (failed != 0) return system_error("write", next, failed);
  if (rename(next.c_str(), path(name).c_str()) != 0)
    return system_error("replace", path(name), errno);
  if (durable) {
    const Descriptor directory(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.valid()) fsync(directory.get());  // as durable as this file system can be
  }
  return success();
}

Result<void> JobFiles::write_spec(const JobSpec& spec) const {
  if (spec.command.empty() || spec.command.front().empty())
    return invalid_argument("a job needs a program to run: give its name and words");
  const auto holds_nul = [](const std::string& word) {
    return word.find('\0') != std::string::npos;
  };
  if (std::ranges::any_of(spec.command, holds_nul) ||
      std::ranges::any_of(spec.environment, holds_nul) || holds_nul(spec.directory))
    return invalid_argument("no word of a command or of its environment may hold a NUL byte");
  if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error("make the directory", directory_, errno);
  if (access(path("spec").c_str(), F_OK) == 0) {
    return Error(ErrorCode::already_exists,
                 fmt::format("{} belongs to a job already", printable(directory_)));
  }
  return write_whole("spec", encode(spec), false);
}

Result<JobSpec> JobFiles::read_spec() const {
  const auto text = read_file(path("spec"));
  if (!text) return system_error("read", path("spec"), errno);
  auto spec = decode_spec(*text);
  if (!spec.ok()) {
    return Error(ErrorCode::conflict,
                 fmt::format("{} is not the description of a job of this version of Berth",
                             printable(path("spec"))),
                 spec.error());
  }
  return spec;
}

void JobFiles::reserve_state() const {
  const Descriptor file(open(path(kNextState).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (file.valid()) (void)posix_fallocate(file.get(), 0, kStateRoom);  // later writes may fail then
}

Result<void> JobFiles::write_state(const JobState& state, bool durable) const {
  return write_whole("state", encode(state), durable);
}

std::optional<JobState> JobFiles::read_state() const {
  const auto text = read_file(path("state"));
  return text ? decode_state(*text) : std::nullopt;
}

Result<void> JobFiles::write_order(const JobOrder& order) const {
  return write_whole("terminate",
                     fmt::format("{} {}", order.grace.count(), printable(order.reason)), false);
}

std::optional<JobOrder> JobFiles::read_order() const {
  const auto text = read_file(path("terminate"));
  if (!text) return std::nullopt;
  std::string_view rest = *text;
  std::int64_t grace = 0;
  if (!number(take(rest, ' '), grace)) return std::nullopt;
  return JobOrder{.grace = Duration(grace), .reason = std::string(rest)};
}

Result<Descriptor> JobFiles::lock() const {
  Descriptor file(open(path("lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return system_error("make", path("lock"), errno);
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  if (fcntl(file.get(), F_OFD_SETLK, &whole) == 0) return file;
  if (errno != EAGAIN && errno != EACCES) return system_error("lock", path("lock"), errno);
  return Error(ErrorCode::conflict,
               fmt::format("the job in {} has a supervisor already", printable(directory_)));
}

bool JobFiles::is_locked() const {
  // Asked, not tried: a try that succeeds would be in the way of a supervisor that starts now.
  const Descriptor file(open(path("lock").c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return false;
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  return fcntl(file.get(), F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

}  // namespace berth::local
