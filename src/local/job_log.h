// The log of a job: what it printed, in files of limited size.
//
//   LogWriter log({.directory = dir, .bytes_per_file = 64 << 20, .files = 4});
//   log.write(chunk);
//   …
//   LogPart part = read_log(dir, offset, 65536);       // anybody, meanwhile or later
//
// A place in a log is a number of bytes since its beginning, whatever was deleted since: each file
// is named after the place where it begins (log.00000000000067108864). `log` links to the latest.
//
// Writing never fails towards the job: what a full disk refuses is dropped, and a line in the log
// says how much, as soon as there is room again. Thread-safety: one writer; readers are free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "local/files.h"

namespace berth::local {

struct LogPlan {
  std::string directory;
  std::int64_t bytes_per_file = 0;  // a file may be longer by one chunk
  std::int64_t files = 1;           // the oldest goes when there would be more
};

class LogWriter {
 public:
  // Goes on at the end of what is there.
  explicit LogWriter(LogPlan plan);

  void write(std::string_view bytes);

  // The last chance to tell of what was dropped.
  void finish();

  std::int64_t end() const { return end_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  bool open_file();
  bool tell_dropped();
  int put(std::string_view bytes);

  LogPlan plan_;
  Descriptor file_;
  std::int64_t begin_ = 0;  // of the present file
  std::int64_t end_ = 0;
  std::int64_t dropped_ = 0;
  int errno_ = 0;  // why
};

struct LogPart {
  std::int64_t offset = 0;  // of the first byte; later than asked for if that was deleted
  std::string bytes;        // empty: nothing more yet
  std::int64_t end = 0;     // of the log now
};

// At most `most` bytes from `offset` on. A negative offset counts from the end: -1000 is the last
// thousand bytes.
LogPart read_log(const std::string& directory, std::int64_t offset, std::size_t most);

}  // namespace berth::local
