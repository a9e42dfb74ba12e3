// cuGetProcAddress: from (name, version, flags) to an entry point, and the tables that programs ask
// for.
#include <algorithm>
#include <cstring>
#include <dlfcn.h>

#include "fake/cuda/driver.h"
#include "fake/cuda/names.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global
using berth::fake::Books;
using berth::fake::Header;

namespace {

enum QueryResult : int { kFound = 0, kSymbolNotFound = 1, kVersionNotSufficient = 2 };
constexpr std::uint64_t kPerThread = 2;

struct Answer {
  void* function = nullptr;
  int status = kSymbolNotFound;
};

// The newest form of the name that the version has; with per-thread streams wanted, such a form
// first.
Answer look_up(const char* base, int version, bool per_thread, int newest) {
  const Obtainable* end = kObtainable + kObtainableCount;
  const Obtainable* row = std::lower_bound(
      kObtainable, end, base,
      [](const Obtainable& left, const char* name) { return std::strcmp(left.base, name) < 0; });
  Answer answer;
  Answer threaded;
  for (; row != end && std::strcmp(row->base, base) == 0; ++row) {
    if (row->version > newest) continue;  // of a later driver
    if (row->per_thread != 0 && !per_thread) continue;
    Answer& which = row->per_thread != 0 ? threaded : answer;
    if (row->version <= version) {
      which = {.function = row->function, .status = kFound};
    } else if (which.status == kSymbolNotFound) {
      which.status = kVersionNotSufficient;
    }
  }
  return threaded.status == kFound ? threaded : answer;
}

void write_down(Header& header, const char* symbol, int version, std::uint64_t flags, int status) {
  const std::uint64_t place = header.log_count.fetch_add(1);
  if (place >= berth::fake::kMaxLog) return;
  berth::fake::LogLine& line = driver().books().state().log[place];
  std::strncpy(line.symbol, symbol, sizeof line.symbol - 1);
  line.version = version;
  line.flags = flags;
  line.status = status;
}

// The "future" line also takes the very symbol for a name.
void* exact_symbol(const char* symbol) {
  static void* own = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return own != nullptr && std::strncmp(symbol, "cu", 2) == 0 ? dlsym(own, symbol) : nullptr;
}

CUresult get_proc_address(const char* symbol, void** function, int version, std::uint64_t flags,
                          int* status) {
  if (symbol == nullptr || function == nullptr) return kInvalidValue;
  Books* books = driver().books_if_any();
  if (books == nullptr) return kNoDevice;
  Header& header = books->state().header;
  if (flags > kPerThread || version > static_cast<int>(header.cuda_version)) {
    return kInvalidValue;
  }
  Answer answer =
      look_up(symbol, version, flags == kPerThread, static_cast<int>(header.cuda_version));
  constexpr std::uint32_t kFuture = 15000;
  if (answer.status == kSymbolNotFound && header.cuda_version >= kFuture) {
    answer.function = exact_symbol(symbol);
    if (answer.function != nullptr) answer.status = kFound;
  }
  if ((header.special.load(std::memory_order_relaxed) & berth::fake::kSpecialLog) != 0) {
    write_down(header, symbol, version, flags, answer.status);
  }
  *function = answer.function;
  if (status != nullptr) *status = answer.status;
  return kSuccess;
}

}  // namespace

BERTH_CUDA cuGetProcAddress_v2(const char* symbol, void** function, int version,
                               std::uint64_t flags, int* status) {
  return get_proc_address(symbol, function, version, flags, status);
}

// The form of CUDA 11.3 has no status: what is not found is an error.
BERTH_CUDA cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  int status = kFound;
  const CUresult code = get_proc_address(symbol, function, version, flags, &status);
  if (code != kSuccess) return code;
  return status == kFound ? kSuccess : kNotFound;
}

// Private tables of function pointers: the fake has none, and says so in the driver's way.
BERTH_CUDA cuGetExportTable(const void** table, const Uuid* id) {
  if (table == nullptr || id == nullptr) return kInvalidValue;
  *table = nullptr;
  return kNotFound;
}
