// The store's commits against bare SQLite's: the same bytes, pragmas and grouping, slice by slice
// in turn on the same disk, so that what the disk does to one it does to the other. Thread-safety:
// none.
#pragma once

#include <string>

#include "base/result.h"

namespace berth::bench {

struct JournalLoad {
  int group = 16;        // records a commit
  int body_bytes = 300;  // of each record that is no erasure
  int slices = 20;       // of each side
  int slice = 50;        // commits
};

struct JournalSpeed {
  double store_per_s = 0;  // commits
  double bare_per_s = 0;
  double store_p99_ms = 0;  // of one commit
  double bare_p99_ms = 0;
};

// Works in a folder of its own below `directory`, which it removes. Errors: what the store or
// SQLite said.
Result<JournalSpeed> compare_journals(const std::string& directory, const JournalLoad& load);

}  // namespace berth::bench
