// Why a journal is not opened or written, in words for one who has a shell on the machine; and the
// checks of a file that need no SQLite.
// Thread-safety: functions.
#pragma once

#include <string_view>

#include "base/result.h"
#include "store/disk.h"

namespace SQLite {  // NOLINT(readability-identifier-naming): its own name
class Exception;
}

namespace berth::store {

// conflict: "'PATH' WHY; nothing was changed. NEXT".
Error refused(const Disk& disk, std::string_view why, std::string_view next);

// conflict: the file is not what was written. If the disk would not let it be read, that: then
// unavailable.
Error damaged(const Disk& disk, std::string_view what);

// unavailable: what SQLite says of a deed ("write"), what the system said, and the next step.
Error trouble(const Disk& disk, std::string_view deed, const SQLite::Exception& exception);

// Whether SQLite, on opening, found the file itself to be wrong.
bool speaks_of_damage(const SQLite::Exception& exception);

// Looks at the file's header and size without SQLite, which might begin to mend what it opens.
// Errors: conflict; unavailable where it cannot be read.
Result<void> check_header(const Disk& disk);

}  // namespace berth::store
