#include "grant/directory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "guard/layout.h"
#include "guard/slots.h"
#include "guard/word.h"

namespace berth::grant {

namespace {

using guard::AccountView;
using guard::DirectAccess;
using guard::Policy;
using guard::PolicyDevice;

Memory memory_of(std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  return Memory::bytes(static_cast<std::int64_t>(std::min(bytes, kMost)));
}

std::string text_of(const char* text, std::size_t most) {
  return {text, std::find(text, text + most, '\0')};
}

Uuid uuid_of(const std::uint8_t (&bytes)[guard::kUuidBytes]) {
  Uuid uuid;
  std::ranges::copy(bytes, uuid.bytes.begin());
  return uuid;
}

// A mapped file; unmapped and closed at the end.
struct File {
  int fd = -1;
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::uint64_t inode = 0;

  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  ~File() {
    if (memory != nullptr) munmap(memory, bytes);
    if (fd >= 0) close(fd);
  }

  Result<void> open(const std::string& path, bool writable) {
    fd = ::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    struct stat status = {};
    if (fd < 0 || fstat(fd, &status) != 0) {
      const bool missing = errno == ENOENT;
      return Error(missing ? ErrorCode::not_found : ErrorCode::unavailable,
                   fmt::format("cannot open {}: {}{}", path, std::strerror(errno),
                               missing ? "; name a directory that a grant was created in" : ""));
    }
    if (status.st_size < static_cast<off_t>(guard::kHeaderBytes)) {
      return Error(ErrorCode::conflict,
                   fmt::format("{} has {} bytes, too few for a grant", path, status.st_size));
    }
    bytes = static_cast<std::size_t>(status.st_size);
    inode = status.st_ino;
    void* at =
        mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
      return Error(ErrorCode::unavailable,
                   fmt::format("cannot map {}: {}", path, std::strerror(errno)));
    }
    memory = at;
    return success();
  }
};

}  // namespace

struct GrantDirectory::Mapping {
  std::string path;
  File account_file;
  File policy_file;
  guard::SharedAccount account;
  const Policy* policy = nullptr;

  const PolicyDevice* device(const Uuid& uuid) const {
    const std::span all(policy->device, policy->n_devices);
    const auto found = std::ranges::find_if(
        all, [&](const PolicyDevice& device) { return uuid_of(device.uuid) == uuid; });
    return found == all.end() ? nullptr : &*found;
  }
};

Memory overhead_of(std::span<const UsageSample> samples) {
  Memory least;
  bool first = true;
  for (const UsageSample& sample : samples) {
    const Memory explained = std::max(sample.charged_before, sample.charged_after);
    const Memory rest = std::max(Memory(), Memory(sample.reported - explained));
    least = first ? rest : std::min(least, rest);
    first = false;
  }
  return least;
}

GrantDirectory::GrantDirectory(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

GrantDirectory::GrantDirectory(GrantDirectory&&) noexcept = default;
GrantDirectory& GrantDirectory::operator=(GrantDirectory&&) noexcept = default;
GrantDirectory::~GrantDirectory() = default;

Result<GrantDirectory> GrantDirectory::open(const std::string& path) {
  auto mapping = std::make_unique<Mapping>();
  mapping->path = path;
  TRY_VOID(mapping->account_file.open(path + "/" + guard::kAccountFile, true));
  TRY_VOID(mapping->policy_file.open(path + "/" + guard::kPolicyFile, false));
  const File& account = mapping->account_file;
  mapping->account = {.view = AccountView::over(account.memory, account.bytes),
                      .fd = account.fd,
                      .inode = account.inode,
                      .self = guard::own_identity()};
  // An agent is no successor of a slot's owner, even if it runs in the same process.
  mapping->account.self.pid = 0;
  mapping->policy = static_cast<const Policy*>(mapping->policy_file.memory);
  if (!mapping->account.view.valid() || !guard::is_policy(*mapping->policy)) {
    return Error(ErrorCode::conflict,
                 fmt::format("{} is no grant of layout {}: account or policy is damaged or of "
                             "another version",
                             path, guard::kLayout));
  }
  return GrantDirectory(std::move(mapping));
}

GrantReading GrantDirectory::read() const {
  const AccountView& view = mapping_->account.view;
  const Policy& policy = *mapping_->policy;
  GrantReading reading;
  reading.id = text_of(policy.grant_id, sizeof(policy.grant_id));
  reading.closed = (policy.flags & guard::policy_closed) != 0;
  reading.level = policy.level;
  std::vector<SlotReading> slots;
  for (std::uint32_t slot = 0; slot < view.n_slots(); ++slot) {
    const guard::Owner& owner = view.owner(slot);
    slots.push_back({.slot = slot,
                     .pid = owner.pid,
                     .name = text_of(owner.name, sizeof(owner.name)),
                     .locked = owner.pid != 0 && guard::is_slot_locked(mapping_->account.fd, slot),
                     .held = {}});
  }
  DirectAccess access;
  for (std::uint32_t i = 0; i < view.n_devices(); ++i) {
    const guard::DeviceAccount& from = view.device(i);
    DeviceReading device{.uuid = uuid_of(from.uuid),
                         .request = {},
                         .limit = {},
                         .cap = {},
                         .overhead = {},
                         .context_bytes = {},
                         .charged = memory_of(guard::bytes_of(from.word)),
                         .refused = memory_of(from.refused).in_bytes(),
                         .overshoot = memory_of(from.overshoot),
                         .unknown_abi = memory_of(from.unknown_abi).in_bytes(),
                         .slots = {}};
    if (const PolicyDevice* entry = mapping_->device(device.uuid)) {
      device.request = memory_of(entry->request);
      device.limit = memory_of(entry->limit);
      device.cap = memory_of(entry->cap);
      device.overhead = memory_of(entry->overhead);
      device.context_bytes = memory_of(entry->context_bytes);
    }
    for (std::uint32_t slot = 0; slot < view.n_slots(); ++slot) {
      const Memory held = memory_of(guard::peek_slot(access, guard::books_of(view, i), slot));
      if (held == Memory()) continue;
      slots[slot].held += held;
      device.slots.push_back(slots[slot]);
      device.slots.back().held = held;
    }
    reading.devices.push_back(std::move(device));
  }
  std::ranges::copy_if(slots, std::back_inserter(reading.owners), [](const SlotReading& slot) {
    return slot.pid != 0 || slot.held != Memory();
  });
  return reading;
}

// The policy is mapped read-only here like everywhere; a change opens it for writing, which its
// mode (0444) forbids to everybody but root, and to its owner until he changes the mode.
Result<void> GrantDirectory::with_policy(const Uuid& device,
                                         void (*change)(void* entry, std::int64_t value),
                                         std::int64_t value) {
  const PolicyDevice* entry = mapping_->device(device);
  const std::string path = mapping_->path + "/" + guard::kPolicyFile;
  if (entry == nullptr) {
    return Error(ErrorCode::not_found,
                 fmt::format("{} has no device {}", mapping_->path, uuid_text(device)));
  }
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0 && errno == EACCES && fchmod(mapping_->policy_file.fd, 0644) == 0) {
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    fchmod(mapping_->policy_file.fd, 0444);
  }
  if (fd < 0) {
    return Error(ErrorCode::unavailable,
                 fmt::format("cannot change {}: {}", path, std::strerror(errno)));
  }
  void* at = mmap(nullptr, sizeof(Policy), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) {
    return Error(ErrorCode::unavailable,
                 fmt::format("cannot map {}: {}", path, std::strerror(errno)));
  }
  change(&static_cast<Policy*>(at)->device[entry - mapping_->policy->device], value);
  munmap(at, sizeof(Policy));
  return success();
}

Result<void> GrantDirectory::set_cap(const Uuid& device, Memory cap) {
  const PolicyDevice* entry = mapping_->device(device);
  if (entry != nullptr && (cap < memory_of(entry->request) || cap > memory_of(entry->limit))) {
    return invalid_argument(
        fmt::format("cap of {}: {} B is out of range; request {} B <= cap <= limit {} B",
                    uuid_text(device), cap.in_bytes(), entry->request, entry->limit));
  }
  return with_policy(
      device,
      [](void* raw, std::int64_t value) {
        static_cast<PolicyDevice*>(raw)->cap = static_cast<std::uint64_t>(value);
      },
      cap.in_bytes());
}

Result<void> GrantDirectory::set_overhead(const Uuid& device, Memory overhead) {
  if (overhead < Memory()) return invalid_argument("overhead: negative sizes do not exist");
  return with_policy(
      device,
      [](void* raw, std::int64_t value) {
        static_cast<PolicyDevice*>(raw)->overhead = static_cast<std::uint64_t>(value);
      },
      overhead.in_bytes());
}

Result<void> GrantDirectory::set_share(const Uuid& device, Milli share) {
  const PolicyDevice* entry = mapping_->device(device);
  if (entry != nullptr && (share < Milli(1) || share > Milli(entry->share_limit))) {
    return invalid_argument(fmt::format("share of {}: {} is out of range; 1 to {} thousandths",
                                        uuid_text(device), share.count(),
                                        entry->share_limit.load()));
  }
  return with_policy(
      device,
      [](void* raw, std::int64_t value) {
        static_cast<PolicyDevice*>(raw)->share_now = static_cast<std::uint32_t>(value);
      },
      share.count());
}

std::vector<AuditFinding> GrantDirectory::audit() {
  const AccountView& view = mapping_->account.view;
  std::vector<AuditFinding> findings;
  DirectAccess access;
  for (std::uint32_t device = 0; device < view.n_devices(); ++device) {
    AuditFinding finding{.uuid = uuid_of(view.device(device).uuid), .charged = {}, .held = {}};
    const guard::DeviceBooks books = guard::books_of(view, device);
    // A busy word changes while the slots are read; then it is looked at again, not for ever.
    for (int attempt = 0; attempt < 100 && !finding.exact; ++attempt) {
      const std::uint64_t word = DirectAccess::load(*books.word);
      std::uint64_t sum = 0;
      for (std::uint32_t slot = 0; slot < view.n_slots(); ++slot)
        sum += std::min(guard::peek_slot(access, books, slot), guard::kMaxBytes);
      finding.charged = memory_of(guard::bytes_of(word));
      finding.held = memory_of(sum);
      finding.exact = DirectAccess::load(*books.word) == word;
      if (!finding.exact || sum == guard::bytes_of(word)) continue;
      const std::uint64_t right = guard::pack_word(std::min(sum, guard::kMaxBytes),
                                                   guard::slot_of(word), guard::number_of(word));
      finding.repaired = DirectAccess::exchange(*books.word, word, right);
      finding.exact = finding.repaired;
    }
    findings.push_back(finding);
  }
  return findings;
}

int GrantDirectory::reclaim() {
  return static_cast<int>(guard::reclaim_dead(mapping_->account, guard::kNoSlot));
}

std::vector<std::uint32_t> GrantDirectory::pids() const {
  const AccountView& view = mapping_->account.view;
  std::vector<std::uint32_t> pids;
  for (std::uint32_t slot = 0; slot < view.n_slots(); ++slot) {
    const std::uint32_t pid = view.owner(slot).pid;
    if (pid != 0) pids.push_back(pid);
  }
  return pids;
}

}  // namespace berth::grant
