// Clock, state directory, open files, control groups.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/doctor_checks.h"
#include "cli/words_for_people.h"

namespace berth::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMib = 1'048'576;

std::int64_t seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec;
}

// File systems on which the journal cannot keep its promise, by their numbers in statfs(2).
struct BadDisk {
  std::int64_t magic;
  std::string_view name;
  std::string_view why;
};

constexpr BadDisk kBadDisks[] = {
    {0x01021994, "tmpfs", "it is empty after a reboot"},
    {0x6969, "NFS", "its locks and syncs are another machine's"},
    {0x65735546, "FUSE", "whether a sync reaches a disk is up to the program behind it"},
    {static_cast<std::int64_t>(0xFF534D42), "CIFS", "its locks and syncs are another machine's"},
};

// Microseconds that one small durable write takes, the median of a few; nothing if `directory`
// cannot be written.
std::optional<std::int64_t> sync_time_us(const std::string& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) {
    return std::nullopt;
  }
  std::array<std::int64_t, 7> times{};
  std::array<char, 4096> page{};
  for (std::int64_t& time : times) {
    const auto begin = std::chrono::steady_clock::now();
    if (write(file, page.data(), page.size()) < 0 || fdatasync(file) != 0) {
      close(file);
      return std::nullopt;
    }
    time = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                                 begin)
               .count();
  }
  close(file);
  std::ranges::sort(times);
  return times[times.size() / 2];
}

std::string ms_text(std::int64_t us) {
  return us < 10'000 ? fmt::format("{}.{:02} ms", us / 1000, us % 1000 / 10)
                     : fmt::format("{} ms", us / 1000);
}

}  // namespace

Finding check_clock() {
  Finding finding{.name = "clock"};
  timex state{};
  const int kind = adjtimex(&state);
  const std::int64_t awake = seconds_of(CLOCK_MONOTONIC);
  const std::int64_t asleep = std::max<std::int64_t>(seconds_of(CLOCK_BOOTTIME) - awake, 0);
  finding.text = fmt::format("up {}", span_text(awake + asleep));
  if (asleep > 5) {
    finding.text += fmt::format(", of that asleep {} (leases ran on meanwhile)", span_text(asleep));
  }
  if (kind < 0) {
    return finding;
  }
  if ((state.status & STA_UNSYNC) != 0 || kind == TIME_ERROR) {
    finding.health = Health::warn;
    finding.text += "; the time of day is not synchronised";
    finding.mend =
        "run chrony or systemd-timesyncd; leases run by the clock since boot and are safe, but the "
        "times that are shown, and TLS, are not";
    return finding;
  }
  finding.text +=
      fmt::format(", synchronised within {} ms", std::max<std::int64_t>(state.maxerror / 1000, 1));
  return finding;
}

Finding check_state_directory(const std::string& directory) {
  Finding finding{.name = "disk"};
  // What is not there yet will be made where its nearest parent is.
  fs::path place = directory;
  std::error_code error;
  while (!fs::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  struct statfs disk{};
  if (statfs(place.c_str(), &disk) != 0) {
    finding.health = Health::fail;
    finding.text = fmt::format("{}: {}", directory, std::strerror(errno));
    finding.mend = "name another state directory with --state";
    return finding;
  }
  const auto block = static_cast<std::int64_t>(disk.f_bsize);
  const std::int64_t free_mib = static_cast<std::int64_t>(disk.f_bavail) * block / kMib;
  finding.text = fmt::format("{}: {} free", directory, rough_memory(free_mib));
  const std::optional<std::int64_t> sync = sync_time_us(place);
  if (sync.has_value()) {
    finding.text += fmt::format(", a durable write takes {}", ms_text(*sync));
  }
  const auto note = [&](Health health, const std::string& text, std::string mend) {
    if (health > finding.health) {
      finding.health = health;
      finding.mend = std::move(mend);
    }
    finding.text += "; " + text;
  };
  if (free_mib < 64) {
    note(Health::fail, "it is full", "make room: without it nothing is granted");
  } else if (free_mib < 1024) {
    note(Health::warn, "that is little", "keep 1 GiB free: on a full disk nothing is granted");
  }
  if (disk.f_files > 0 && disk.f_ffree < 100) {
    note(Health::fail, "no inodes are left", "delete files: without inodes nothing is granted");
  }
  for (const BadDisk& bad : kBadDisks) {
    if (static_cast<std::int64_t>(disk.f_type) == bad.magic) {
      note(Health::warn, fmt::format("on {}: {}", bad.name, bad.why),
           "put the state directory onto a local disk (--state)");
    }
  }
  if (!sync.has_value()) {
    note(Health::warn, "this user cannot write there",
         "nothing, if the daemon runs as another user; else give it the directory, or name another "
         "one with --state");
  } else if (*sync > 100'000) {
    note(
        Health::warn, "that is slow",
        "every answer waits for such a write: move the state directory to a faster disk (--state)");
  }
  return finding;
}

Finding check_open_files() {
  Finding finding{.name = "files"};
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  finding.text =
      fmt::format("{} files may be open at once (up to {} if asked for)", limit.rlim_cur,
                  limit.rlim_max == RLIM_INFINITY ? "any number" : std::to_string(limit.rlim_max));
  if (limit.rlim_cur < 4096) {
    finding.health = Health::warn;
    finding.mend =
        "each client that waits is an open file of the daemon: LimitNOFILE=65536 in its unit, or "
        "`ulimit -n 65536` before it starts";
  }
  return finding;
}

Finding check_cgroup(const std::string& root) {
  Finding finding{.name = "cgroup"};
  std::error_code error;
  if (fs::exists(root + "/cgroup.controllers", error)) {
    finding.text = access((root + "/cgroup.procs").c_str(), W_OK) == 0
                       ? "version 2, and this user may make groups at its root"
                       : "version 2";
    return finding;
  }
  finding.health = Health::warn;
  finding.text = fs::exists(root + "/unified", error)
                     ? "versions 1 and 2 side by side"
                     : (fs::exists(root + "/memory", error) ? "version 1" : "none is mounted");
  finding.mend =
      "jobs are told apart by session and ancestry, which is enough; with version 2 "
      "(systemd.unified_cgroup_hierarchy=1) stray processes are found too";
  return finding;
}

}  // namespace berth::cli
