// Where a test, or a daemon under test, stands between the store and its disk.
//
// Everything the store asks of the file system in its directory goes past the hook first: the hook
// may let it pass, wait, end the process, or make it fail with an errno as a full, read-only or
// broken disk would. It sees what is written, so that a test can also build what a power cut
// leaves. Thread-safety: called on the thread that calls the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace berth::store {

enum class DiskDeed : std::uint8_t {
  read,            // only asked before, never told after
  write,           // `bytes` at `offset`
  truncate,        // to `offset` bytes; longer than the file: room is set aside, it reads as zeros
  sync,            // of the file's content
  sync_directory,  // of the names in the directory; `file` is empty
  rename,          // `file` becomes `to`
  remove,
};

struct DiskStep {
  DiskDeed deed = DiskDeed::write;
  std::string_view file{};  // its name in the store's directory
  std::string_view to{};
  std::int64_t offset = 0;
  std::string_view bytes{};
};

// What happens to a step: nothing (error 0), or it fails with that errno. A write that fails has
// nevertheless written its first `written` bytes: a torn write.
struct DiskFault {
  int error = 0;
  std::size_t written = 0;
};

class FaultHook {
 public:
  FaultHook() = default;
  FaultHook(const FaultHook&) = delete;
  FaultHook& operator=(const FaultHook&) = delete;
  virtual ~FaultHook() = default;

  // Called before the step is carried out.
  virtual DiskFault before(const DiskStep& step) = 0;

  // Called after the step was carried out; not after one that failed.
  virtual void after(const DiskStep& step) { static_cast<void>(step); }
};

}  // namespace berth::store
