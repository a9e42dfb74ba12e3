#include "serve/guards.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/ledger/ledger.h"
#include "grant/spec.h"
#include "grant/uuid.h"

namespace berth::serve {

struct Guards::Grant {
  grant::GrantDirectory directory;
  std::map<std::string, std::int64_t> caps;  // MiB by device, as last written
};

Guards::Guards(std::string directory, std::string library)
    : directory_(std::move(directory)), library_(std::move(library)) {}

Guards::~Guards() = default;

namespace {

// The first folder on the way to `path`, or it, that users who do not own it cannot enter.
std::string closed_folder(const std::string& path) {
  std::filesystem::path at;
  std::error_code error;
  for (const auto& part : std::filesystem::weakly_canonical(path, error)) {
    at /= part;
    struct stat status{};
    if (stat(at.c_str(), &status) != 0 || (status.st_mode & S_IXOTH) == 0) {
      return at.string();
    }
  }
  return {};
}

}  // namespace

std::string Guards::path_of(const std::string& lease) const { return directory_ + "/" + lease; }

// Where grant directories lie. False: the user of this lease could not reach one.
bool Guards::make_place(const lease::Lease& lease) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  chmod(directory_.c_str(), 0755);
  if (lease.uid == geteuid()) {
    return true;
  }
  const std::string closed = closed_folder(directory_);
  if (closed.empty()) {
    return true;
  }
  problem_ = fmt::format(
      "limits of other users' programs are advisory: they lie below {}, which these users cannot "
      "enter; `chmod o+x {}`, or choose another state directory",
      closed, closed);
  return false;
}

bool Guards::make(const lease::Lease& lease) {
  const std::string path = path_of(lease.id);
  if (access(path.c_str(), F_OK) != 0) {
    if (!make_place(lease)) {
      return false;
    }
    grant::GrantSpec spec;
    spec.id = lease.id;
    for (const lease::Held& held : lease.devices) {
      Result<grant::Uuid> uuid = grant::parse_uuid(held.uuid);
      if (!uuid) {
        problem_ = uuid.error().message();
        return false;
      }
      spec.devices.push_back({.uuid = *uuid,
                              .request = Memory::mib(held.request_mib),
                              .limit = Memory::mib(held.limit_mib),
                              .cap = Memory::mib(held.request_mib)});
    }
    spec.closed = true;
    if (lease.ask.gpu().compute_milli > 0 && lease.ask.gpu().compute_milli < 1000) {
      spec.share = Milli{lease.ask.gpu().compute_milli};
    }
    if (Result<void> made = grant::create(path, spec); !made) {
      problem_ = made.error().to_string();
      return false;
    }
    // Processes of other users of the machine have no business with its account.
    const bool closed = chmod(path.c_str(), 0700) == 0;
    if (!closed || (geteuid() == 0 && chown(path.c_str(), lease.uid, lease.gid) != 0)) {
      problem_ = fmt::format("{}: {}", path, std::strerror(errno));
    }
  }
  Result<grant::GrantDirectory> opened = grant::GrantDirectory::open(path);
  if (!opened) {
    problem_ = opened.error().to_string();
    return false;
  }
  if (std::ranges::any_of(lease.devices, [](const lease::Held& held) {
        return held.limit_mib > held.request_mib;
      })) {
    bursting_.insert(lease.id);
  }
  grants_.emplace(lease.id, std::make_unique<Grant>(Grant{std::move(*opened), {}}));
  return true;
}

std::optional<api::GuardPaths> Guards::paths(const lease::Lease& lease) {
  if (library_.empty() || lease.devices.empty() || without_.contains(lease.id)) {
    return std::nullopt;
  }
  if (!grants_.contains(lease.id) && !make(lease)) {
    without_.insert(lease.id);
    return std::nullopt;
  }
  return api::GuardPaths{path_of(lease.id), library_};
}

void Guards::restore(const lease::Service& service) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string id = entry.path().filename().string();
    const lease::Lease* lease = service.find(id);
    if (lease != nullptr && lease::holds(lease->state)) {
      static_cast<void>(paths(*lease));
    } else {
      static_cast<void>(grant::remove(entry.path().string()));
    }
  }
}

void Guards::ended(const std::string& lease) {
  without_.erase(lease);
  bursting_.erase(lease);
  if (const auto found = grants_.find(lease); found != grants_.end()) {
    grants_.erase(found);
    if (Result<void> removed = grant::remove(path_of(lease)); !removed) {
      problem_ = removed.error().to_string();
    }
  }
}

namespace {

// Whether a claim waits for memory of a device which it could have without bursts.
bool is_wanted(const lease::Service& service, const core::Device& device,
               std::int64_t free_without_bursts) {
  return std::ranges::any_of(service.live(), [&](std::uint64_t number) {
    const lease::Lease& lease = service.lease(number);
    const core::DeviceAsk& gpu = lease.ask.gpu();
    return lease.state == lease::State::waiting && lease.reason == lease::Reason::no_room &&
           gpu.is_share() &&
           core::request_mib_on(gpu, device.usable_mib(), 0) <= free_without_bursts;
  });
}

}  // namespace

void Guards::balance(const lease::Service& service) {
  struct Burster {
    Grant* grant;
    std::int64_t request;
    std::int64_t limit;
  };
  std::map<std::string, std::vector<Burster>> on;  // by device
  for (const std::string& id : bursting_) {
    const lease::Lease* lease = service.find(id);
    const auto& grant = grants_.at(id);
    if (lease == nullptr) {
      continue;
    }
    for (const lease::Held& held : lease->devices) {
      if (held.limit_mib > held.request_mib) {
        on[held.uuid].push_back({grant.get(), held.request_mib, held.limit_mib});
      }
    }
  }
  const core::Fleet& fleet = service.engine().fleet();
  for (auto& [uuid, bursters] : on) {
    const core::DeviceId device = fleet.find_device(uuid);
    Result<grant::Uuid> parsed = grant::parse_uuid(uuid);
    if (device.is_none() || !fleet.present(device) || !parsed) {
      continue;
    }
    const core::DeviceBook& book = service.engine().ledger().book(device);
    const std::int64_t free_mib = std::max<std::int64_t>(
        Memory::bytes(book.usable - book.foreign - book.requests).floor_mib(), 0);
    // Room that a waiting claim could have is not lent out.
    std::int64_t left = is_wanted(service, fleet.device(device), free_mib) ? 0 : free_mib;
    std::int64_t sharers = static_cast<std::int64_t>(bursters.size());
    std::ranges::sort(bursters, {}, [](const Burster& one) { return one.limit - one.request; });
    for (const Burster& one : bursters) {
      const std::int64_t extra = std::min(one.limit - one.request, left / sharers);
      left -= extra;
      --sharers;
      std::int64_t& cap = one.grant->caps[uuid];
      if (cap != one.request + extra) {
        cap = one.request + extra;
        if (Result<void> set = one.grant->directory.set_cap(*parsed, Memory::mib(cap)); !set) {
          problem_ = set.error().to_string();
        }
      }
    }
  }
}

lease::Service::Uses Guards::uses(const lease::Service& service) const {
  lease::Service::Uses uses;
  for (const std::string& id : bursting_) {
    const lease::Lease* lease = service.find(id);
    const auto& grant = grants_.at(id);
    if (lease == nullptr) {
      continue;
    }
    for (const grant::DeviceReading& device : grant->directory.read().devices) {
      for (const lease::Held& held : lease->devices) {
        const Result<grant::Uuid> uuid = grant::parse_uuid(held.uuid);
        if (uuid.ok() && *uuid == device.uuid) {
          uses[held.uuid][id] = device.charged.in_bytes() + device.overhead.in_bytes();
        }
      }
    }
  }
  return uses;
}

}  // namespace berth::serve
