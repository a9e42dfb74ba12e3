#include "grant/spec.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <new>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "guard/layout.h"
#include "guard/word.h"

namespace berth::grant {

namespace {

using guard::Policy;

Error system_error(std::string_view what, const std::string& path) {
  return {
      errno == EEXIST || errno == ENOTEMPTY ? ErrorCode::already_exists : ErrorCode::unavailable,
      fmt::format("cannot {} {}: {}", what, path, std::strerror(errno))};
}

Result<void> write_file(const std::string& path, const std::vector<char>& bytes, mode_t mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return system_error("create", path);
  std::size_t at = 0;
  bool good = true;
  while (good && at < bytes.size()) {
    const ssize_t put = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (put > 0) at += static_cast<std::size_t>(put);
    good = put > 0 || errno == EINTR;
  }
  // The mode is set apart from the creation: the umask has no say.
  good = good && fchmod(fd, mode) == 0 && fsync(fd) == 0;
  Result<void> done = good ? success() : Result<void>(system_error("write", path));
  close(fd);
  return done;
}

std::vector<char> account_image(const GrantSpec& spec) {
  const auto devices = static_cast<std::uint32_t>(spec.devices.size());
  const auto slots = static_cast<std::uint32_t>(spec.slots);
  std::vector<char> image(guard::account_bytes(devices, slots));
  auto* header = new (image.data()) guard::AccountHeader{};
  std::memcpy(header->magic, guard::kAccountMagic, sizeof(header->magic));
  header->layout = guard::kLayout;
  header->n_devices = devices;
  header->n_slots = slots;
  header->generation = 1;
  for (std::size_t i = 0; i < devices; ++i) {
    char* at = image.data() + guard::kHeaderBytes + i * sizeof(guard::DeviceAccount);
    std::memcpy(at, &guard::kEmptyWord, sizeof(guard::kEmptyWord));
    std::memcpy(at + offsetof(guard::DeviceAccount, uuid), spec.devices[i].uuid.bytes.data(),
                guard::kUuidBytes);
  }
  return image;
}

std::uint32_t flags_of(const GrantSpec& spec) {
  std::uint32_t flags = 0;
  if (spec.closed) flags |= guard::policy_closed;
  if (spec.filter_processes) flags |= guard::policy_filter_processes;
  if (spec.managed_uncounted) flags |= guard::policy_managed_uncounted;
  if (spec.share) flags |= guard::policy_compute;
  if (spec.private_table) flags |= guard::policy_private_table;
  if (spec.show_share_utilisation) flags |= guard::policy_share_utilisation;
  return flags;
}

std::vector<char> policy_image(const GrantSpec& spec) {
  const auto policy = std::make_unique<Policy>();
  std::memcpy(policy->magic, guard::kPolicyMagic, sizeof(policy->magic));
  policy->layout = guard::kLayout;
  policy->n_devices = static_cast<std::uint32_t>(spec.devices.size());
  policy->generation = 1;
  policy->flags = flags_of(spec);
  policy->level = static_cast<std::uint32_t>(guard::Level::library);
  spec.id.copy(policy->grant_id, sizeof(policy->grant_id) - 1);
  const auto share = static_cast<std::uint32_t>(spec.share.value_or(kWholeMilli).count());
  for (std::size_t i = 0; i < spec.devices.size(); ++i) {
    const DeviceShare& from = spec.devices[i];
    guard::PolicyDevice& to = policy->device[i];
    std::ranges::copy(from.uuid.bytes, to.uuid);
    to.request = static_cast<std::uint64_t>(from.request.in_bytes());
    to.limit = static_cast<std::uint64_t>(from.limit.in_bytes());
    to.cap = static_cast<std::uint64_t>(from.cap.in_bytes());
    to.context_bytes = static_cast<std::uint64_t>(from.context_bytes.in_bytes());
    to.share_request = share;
    to.share_limit = share;
    to.share_now = share;
  }
  const char* bytes = reinterpret_cast<const char*>(policy.get());
  return {bytes, bytes + sizeof(Policy)};
}

// The names a grant directory may hold.
bool is_ours(std::string_view name) {
  return name == guard::kAccountFile || name == guard::kPolicyFile || name == guard::kPidsFile;
}

Result<std::vector<std::string>> names_in(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(directory.c_str()), &closedir);
  if (listing == nullptr) {
    if (errno != ENOENT) return system_error("read", directory);
    return Error(ErrorCode::not_found, fmt::format("{} does not exist", directory));
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

void drop(const std::string& directory) {
  for (const char* name : {guard::kAccountFile, guard::kPolicyFile, guard::kPidsFile})
    unlink((directory + "/" + name).c_str());
  rmdir(directory.c_str());
}

}  // namespace

Result<void> check(const GrantSpec& spec) {
  if (spec.id.empty() || spec.id.size() > 63) {
    return invalid_argument(
        fmt::format("grant id '{}' has {} bytes; 1 to 63 are allowed", spec.id, spec.id.size()));
  }
  if (spec.devices.empty() || spec.devices.size() > guard::kMaxDevices) {
    return invalid_argument(fmt::format("a grant has 1 to {} devices, this one {}",
                                        guard::kMaxDevices, spec.devices.size()));
  }
  if (spec.slots < 1 || spec.slots > static_cast<int>(guard::kMaxSlots)) {
    return invalid_argument(
        fmt::format("slots: {} is out of range; 1 to {}", spec.slots, guard::kMaxSlots));
  }
  if (spec.share && (*spec.share < Milli(1) || *spec.share > kWholeMilli)) {
    return invalid_argument(
        fmt::format("share: {} thousandths is out of range; 1 to 1000", spec.share->count()));
  }
  std::set<Uuid> seen;
  for (const DeviceShare& device : spec.devices) {
    if (!seen.insert(device.uuid).second) {
      return invalid_argument(fmt::format("device {} is named twice", uuid_text(device.uuid)));
    }
    const auto most = Memory::bytes(static_cast<std::int64_t>(guard::kMaxBytes));
    if (device.request < Memory() || device.limit > most || device.context_bytes < Memory() ||
        device.context_bytes > most || device.request > device.cap || device.cap > device.limit) {
      return invalid_argument(
          fmt::format("device {}: request {} B, cap {} B, limit {} B; request <= cap <= limit "
                      "< 16 TiB must hold",
                      uuid_text(device.uuid), device.request.in_bytes(), device.cap.in_bytes(),
                      device.limit.in_bytes()));
    }
  }
  return success();
}

Result<void> create(const std::string& directory, const GrantSpec& spec) {
  TRY_VOID(check(spec));
  const std::string draft = fmt::format("{}.{}.new", directory, getpid());
  if (mkdir(draft.c_str(), 0700) != 0) return system_error("make", draft);
  const auto fill = [&]() -> Result<void> {
    TRY_VOID(write_file(draft + "/" + guard::kAccountFile, account_image(spec), 0666));
    TRY_VOID(write_file(draft + "/" + guard::kPolicyFile, policy_image(spec), 0444));
    if (chmod(draft.c_str(), 0755) != 0) return system_error("open up", draft);
    if (rename(draft.c_str(), directory.c_str()) != 0) {
      if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) {
        return system_error("make", directory);
      }
      return Error(ErrorCode::conflict,
                   fmt::format("{} exists already; remove that grant, or name another directory",
                               directory));
    }
    return success();
  };
  Result<void> done = fill();
  if (!done.ok()) drop(draft);
  return done;
}

Result<void> remove(const std::string& directory) {
  TRY(const std::vector<std::string> names, names_in(directory));
  for (const std::string& name : names) {
    if (!is_ours(name)) {
      return Error(ErrorCode::conflict,
                   fmt::format("{} also holds '{}', so it is no grant directory alone; nothing was "
                               "deleted",
                               directory, name));
    }
  }
  drop(directory);
  if (access(directory.c_str(), F_OK) == 0) {
    return Error(ErrorCode::unavailable, fmt::format("{} could not be deleted", directory));
  }
  return success();
}

}  // namespace berth::grant
