#include "store/vfs.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>
#include <sqlite3.h>
#include <string_view>

#include <fmt/format.h>

#include "base/assert.h"

namespace berth::store {

namespace {

sqlite3_vfs* lower() {
  static sqlite3_vfs* const unix_vfs = sqlite3_vfs_find("unix");
  ASSERT(unix_vfs != nullptr);
  return unix_vfs;
}

std::string_view base_name(const char* path) {
  const std::string_view text = path == nullptr ? std::string_view() : std::string_view(path);
  return text.substr(text.rfind('/') + 1);  // npos + 1 is 0
}

// SQLite hands us memory for this and, right behind it, for the file of the VFS below.
struct File {
  sqlite3_file base;
  Tap* tap;
  bool is_log;
  std::string_view name;  // SQLite keeps the path until the file is closed

  sqlite3_file* below() {
    return reinterpret_cast<sqlite3_file*>(reinterpret_cast<char*>(this) + sizeof(File));
  }

  const sqlite3_io_methods* methods() { return below()->pMethods; }
};

static_assert(sizeof(File) % 8 == 0 && alignof(File) <= 8, "SQLite aligns to 8 bytes");

File* file_of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }

// Remembers why, before anything else overwrites errno.
int noted(File* file, DiskDeed deed, int code) {
  if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) {
    file->tap->failed(deed, errno);
  }
  return code;
}

int close_file(sqlite3_file* base) {
  return file_of(base)->methods()->xClose(file_of(base)->below());
}

int read_file(sqlite3_file* base, void* to, int amount, sqlite3_int64 offset) {
  File* file = file_of(base);
  const DiskStep step{.deed = DiskDeed::read, .file = file->name, .offset = offset};
  if (file->tap->before(step).error != 0) {
    return SQLITE_IOERR_READ;
  }
  return noted(file, DiskDeed::read, file->methods()->xRead(file->below(), to, amount, offset));
}

int write_file(sqlite3_file* base, const void* from, int amount, sqlite3_int64 offset) {
  File* file = file_of(base);
  Tap* tap = file->tap;
  if (file->is_log && offset < tap->commit_begins.value_or(INT64_MAX)) {
    tap->commit_begins = offset;
  }
  const DiskStep step{
      .deed = DiskDeed::write,
      .file = file->name,
      .offset = offset,
      .bytes = {static_cast<const char*>(from), static_cast<std::size_t>(amount)},
  };
  if (const DiskFault fault = tap->before(step); fault.error != 0) {
    if (fault.written > 0) {
      const std::size_t torn = std::min(fault.written, step.bytes.size());
      file->methods()->xWrite(file->below(), from, static_cast<int>(torn), offset);
    }
    return fault.error == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  }
  const int code =
      noted(file, DiskDeed::write, file->methods()->xWrite(file->below(), from, amount, offset));
  if (code == SQLITE_OK) {
    tap->after(step);
  }
  return code;
}

int truncate_file(sqlite3_file* base, sqlite3_int64 size) {
  File* file = file_of(base);
  const DiskStep step{.deed = DiskDeed::truncate, .file = file->name, .offset = size};
  if (file->tap->before(step).error != 0) {
    return SQLITE_IOERR_TRUNCATE;
  }
  const int code = noted(file, DiskDeed::truncate, file->methods()->xTruncate(file->below(), size));
  if (code == SQLITE_OK) {
    file->tap->after(step);
  }
  return code;
}

int sync_file(sqlite3_file* base, int flags) {
  File* file = file_of(base);
  const DiskStep step{.deed = DiskDeed::sync, .file = file->name};
  if (file->tap->before(step).error != 0) {
    return SQLITE_IOERR_FSYNC;
  }
  const int code = noted(file, DiskDeed::sync, file->methods()->xSync(file->below(), flags));
  if (code == SQLITE_OK) {
    file->tap->after(step);
  }
  return code;
}

int file_size(sqlite3_file* base, sqlite3_int64* size) {
  File* file = file_of(base);
  return noted(file, DiskDeed::read, file->methods()->xFileSize(file->below(), size));
}

int lock_file(sqlite3_file* base, int level) {
  File* file = file_of(base);
  return noted(file, DiskDeed::write, file->methods()->xLock(file->below(), level));
}

int unlock_file(sqlite3_file* base, int level) {
  return file_of(base)->methods()->xUnlock(file_of(base)->below(), level);
}

int check_reserved_lock(sqlite3_file* base, int* held) {
  return file_of(base)->methods()->xCheckReservedLock(file_of(base)->below(), held);
}

int file_control(sqlite3_file* base, int operation, void* argument) {
  return file_of(base)->methods()->xFileControl(file_of(base)->below(), operation, argument);
}

int sector_size(sqlite3_file* base) {
  return file_of(base)->methods()->xSectorSize(file_of(base)->below());
}

int device_characteristics(sqlite3_file* base) {
  return file_of(base)->methods()->xDeviceCharacteristics(file_of(base)->below());
}

// Version 1: no shared memory. The log's index then lies in our own memory, which the exclusive
// locking mode allows.
const sqlite3_io_methods kMethods = [] {
  sqlite3_io_methods methods{};
  methods.iVersion = 1;
  methods.xClose = close_file;
  methods.xRead = read_file;
  methods.xWrite = write_file;
  methods.xTruncate = truncate_file;
  methods.xSync = sync_file;
  methods.xFileSize = file_size;
  methods.xLock = lock_file;
  methods.xUnlock = unlock_file;
  methods.xCheckReservedLock = check_reserved_lock;
  methods.xFileControl = file_control;
  methods.xSectorSize = sector_size;
  methods.xDeviceCharacteristics = device_characteristics;
  return methods;
}();

Tap* tap_of(sqlite3_vfs* vfs) { return static_cast<Tap*>(vfs->pAppData); }

int open_file(sqlite3_vfs* vfs, const char* path, sqlite3_file* base, int flags, int* got) {
  Tap* tap = tap_of(vfs);
  File* file = new (base) File{};
  file->tap = tap;
  file->name = base_name(path);
  file->is_log = (flags & SQLITE_OPEN_WAL) != 0;
  const int code = lower()->xOpen(lower(), path, file->below(), flags, got);
  if (code != SQLITE_OK) {
    tap->last_error = errno;
    return code;
  }
  file->base.pMethods = &kMethods;
  return code;
}

int delete_file(sqlite3_vfs* vfs, const char* path, int sync) {
  Tap* tap = tap_of(vfs);
  const DiskStep step{.deed = DiskDeed::remove, .file = base_name(path)};
  if (tap->before(step).error != 0) {
    return SQLITE_IOERR_DELETE;
  }
  const int code = lower()->xDelete(lower(), path, sync);
  if (code == SQLITE_OK) {
    tap->after(step);
  } else {
    tap->last_error = errno;
  }
  return code;
}

int access_file(sqlite3_vfs*, const char* path, int flags, int* result) {
  return lower()->xAccess(lower(), path, flags, result);
}

int full_path(sqlite3_vfs*, const char* path, int size, char* out) {
  return lower()->xFullPathname(lower(), path, size, out);
}

int random_bytes(sqlite3_vfs*, int size, char* out) {
  return lower()->xRandomness(lower(), size, out);
}

int sleep_for(sqlite3_vfs*, int microseconds) { return lower()->xSleep(lower(), microseconds); }

int current_time(sqlite3_vfs*, double* days) { return lower()->xCurrentTime(lower(), days); }

int current_time_ms(sqlite3_vfs*, sqlite3_int64* milliseconds) {
  return lower()->xCurrentTimeInt64(lower(), milliseconds);
}

int last_error_of(sqlite3_vfs* vfs, int, char*) { return tap_of(vfs)->last_error; }

std::string next_name() {
  static std::atomic<std::uint64_t> count{0};
  return fmt::format("berth-{}", ++count);
}

}  // namespace

struct Vfs::Registration {
  explicit Registration(Tap& tap) : name(next_name()) {
    vfs.iVersion = 2;
    vfs.szOsFile = static_cast<int>(sizeof(File)) + lower()->szOsFile;
    vfs.mxPathname = lower()->mxPathname;
    vfs.zName = name.c_str();
    vfs.pAppData = &tap;
    vfs.xOpen = open_file;
    vfs.xDelete = delete_file;
    vfs.xAccess = access_file;
    vfs.xFullPathname = full_path;
    vfs.xRandomness = random_bytes;
    vfs.xSleep = sleep_for;
    vfs.xCurrentTime = current_time;
    vfs.xGetLastError = last_error_of;
    vfs.xCurrentTimeInt64 = current_time_ms;
    const int code = sqlite3_vfs_register(&vfs, 0);
    ASSERT(code == SQLITE_OK, code);
  }

  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  ~Registration() { sqlite3_vfs_unregister(&vfs); }

  std::string name;
  sqlite3_vfs vfs{};
};

Vfs::Vfs(Tap& tap) : registration_(std::make_unique<Registration>(tap)) {}

Vfs::~Vfs() = default;

const std::string& Vfs::name() const { return registration_->name; }

}  // namespace berth::store
