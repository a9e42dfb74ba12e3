#include "store/refusal.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sqlite3.h>
#include <string>
#include <unistd.h>

#include <fmt/format.h>

#include "store/format.h"

namespace berth::store {

Error refused(const Disk& disk, std::string_view why, std::string_view next) {
  return {ErrorCode::conflict,
          fmt::format("'{}' {}; nothing was changed. {}", disk.path(kJournalFile), why, next)};
}

Error damaged(const Disk& disk, std::string_view what) {
  if (disk.read_error() != 0) {
    return {ErrorCode::unavailable,
            fmt::format("cannot read '{}': {}: look for errors of the disk in the kernel's log",
                        disk.path(kJournalFile), strerror(disk.read_error()))};
  }
  return refused(disk, fmt::format("is damaged: {}", what),
                 fmt::format("Restore {} and {} together from a backup, or move both aside to "
                             "start with an empty ledger (work that runs is then not known to it)",
                             kJournalFile, kLogFile));
}

namespace {

std::string next_step(int code, int error) {
  if (code == SQLITE_FULL || error == ENOSPC || error == EDQUOT) {
    return "the disk is full; free some space there";
  }
  if (code == SQLITE_READONLY || error == EROFS) {
    return "it may not be written; see how its file system is mounted and who owns it";
  }
  if (code == SQLITE_BUSY) {
    return "another program has the file open; end it (who: fuser -v)";
  }
  if (code == SQLITE_PERM || error == EACCES || error == EPERM) {
    return "we may not; see who owns it";
  }
  return "look for errors of the disk in the kernel's log";
}

}  // namespace

Error trouble(const Disk& disk, std::string_view deed, const SQLite::Exception& exception) {
  const int code = exception.getErrorCode();
  const int error = code == SQLITE_FULL || code == SQLITE_IOERR || code == SQLITE_CANTOPEN
                        ? disk.last_error()
                        : 0;
  const std::string system = error == 0 ? std::string() : fmt::format(" ({})", strerror(error));
  return {ErrorCode::unavailable,
          fmt::format("cannot {} '{}': {}{}: {}", deed, disk.path(kJournalFile), exception.what(),
                      system, next_step(code, error))};
}

bool speaks_of_damage(const SQLite::Exception& exception) {
  const int code = exception.getErrorCode();
  // The plain error is what SQLite says of a header with values that it does not know.
  return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR;
}

namespace {

std::uint32_t big_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = (value << 8U) | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

}  // namespace

// The fields are those of
// "Database File Format" on sqlite.org, section 1.3.
Result<void> check_header(const Disk& disk) {
  constexpr std::size_t kHeaderBytes = 100;
  std::array<char, kHeaderBytes> bytes{};
  std::ifstream file(disk.path(kJournalFile), std::ios::binary);
  if (!file) {
    return Error(ErrorCode::unavailable,
                 fmt::format("cannot read '{}': {}", disk.path(kJournalFile), strerror(errno)));
  }
  // SQLite would open it all the same, and fail later.
  if (::faccessat(AT_FDCWD, disk.path(kJournalFile).c_str(), W_OK, AT_EACCESS) != 0) {
    return Error(
        ErrorCode::unavailable,
        fmt::format("'{}' may not be written ({}); see who owns it and how its file system "
                    "is mounted",
                    disk.path(kJournalFile), strerror(errno)));
  }
  file.read(bytes.data(), bytes.size());
  const std::string_view header(bytes.data(), static_cast<std::size_t>(file.gcount()));
  if (header.empty()) {
    return damaged(disk, "it is empty");
  }
  if (header.size() < kHeaderBytes) {
    return damaged(disk, fmt::format("it ends after {} bytes", header.size()));
  }
  if (header.substr(0, 16) != std::string_view("SQLite format 3\0", 16)) {
    return damaged(disk, "it does not begin as an SQLite file does");
  }
  if (big_endian(header, 68) != static_cast<std::uint32_t>(kApplicationId)) {
    return refused(disk, "is an SQLite file of another program",
                   "Move it aside, or choose another state directory");
  }
  // 1: with a rollback journal, as in a restored copy; 2: with a log. SQLite would open others, but
  // only to read.
  if (header[18] != header[19] || header[18] < 1 || header[18] > 2) {
    return damaged(disk, fmt::format("its header names versions {} and {} of SQLite's format",
                                     int{header[18]}, int{header[19]}));
  }
  if (disk.exists(kRollbackFile)) {
    return refused(disk,
                   fmt::format("was changed by another program, which left '{}'", kRollbackFile),
                   "Open it once with that program so that it can finish, or restore a backup");
  }
  const std::int64_t size = disk.size(kJournalFile);
  const std::int64_t page = (std::int64_t{big_endian(header, 16) >> 16U});
  const std::int64_t page_size = page == 1 ? 65'536 : page;
  const std::int64_t pages = big_endian(header, 28);
  const bool counted = big_endian(header, 24) == big_endian(header, 92);
  if (disk.size(kLogFile) == 0 && counted && size < pages * page_size) {
    return damaged(disk, fmt::format("it ends after {} of its {} bytes", size, pages * page_size));
  }
  return success();
}

}  // namespace berth::store
