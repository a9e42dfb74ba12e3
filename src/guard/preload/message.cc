#include "guard/preload/message.h"

#include "guard/preload/books.h"
#include "guard/preload/grant.h"
#include "guard/sys.h"
#include "guard/text.h"

namespace berth::guard {

namespace {

constexpr std::uint64_t kEveryNs = 10'000'000'000U;
constexpr std::uint64_t kMib = 1U << 20U;

using Line = Text<640>;

// "… B (… MiB)"; asked and held round up, limits down.
void add_size(Line& line, std::uint64_t bytes, bool up) {
  const std::uint64_t mib = bytes / kMib + (up && bytes % kMib != 0 ? 1 : 0);
  line.number(bytes).add(" B (").number(mib).add(" MiB)");
}

void print(const Line& line) {
  // A terminal or pipe that takes nothing is no reason to try again.
  sys::write(2, line.c_str(), line.size());
}

// How many refusals went unprinted; false: this one does too.
bool may_print(int target, std::uint64_t& silent) {
  Local& own = *local();
  const std::uint64_t now = sys::monotonic_ns();
  const Locked locked(own.lock);
  Messages& messages = own.messages[target];
  if (messages.last_ns != 0 && now - messages.last_ns < kEveryNs) {
    ++messages.silent;
    return false;
  }
  messages.last_ns = now;
  silent = messages.silent;
  messages.silent = 0;
  return true;
}

}  // namespace

void print_refusal(int target, std::uint64_t asked) {
  std::uint64_t silent = 0;
  if (!may_print(target, silent)) return;
  const PolicyDevice* policy = policy_of(target);
  const std::uint64_t limit = policy != nullptr ? policy->limit : 0;
  const std::uint64_t cap = policy != nullptr ? policy->cap.load() : 0;
  const std::uint64_t overhead = policy != nullptr ? policy->overhead.load() : 0;
  Line line;
  line.add("berth: GPU memory limit: asked ");
  add_size(line, asked, true);
  line.add(", held ");
  add_size(line, charged_on(target) + overhead, true);
  line.add(", limit ");
  add_size(line, limit, false);
  line.add(", device ");
  if (policy != nullptr) {
    line.add("GPU-").uuid(policy->uuid);
  } else {
    line.add("not in this grant");
  }
  line.add(", grant ").add(g_grant.policy->grant_id, sizeof(g_grant.policy->grant_id));
  line.add(", pid ").number(sys::process_id());
  if (cap < limit) line.add(", burst now capped at ").number(cap).add(" B");
  if (local()->slot.load(std::memory_order_acquire) == kSlotless) {
    line.add(", since the process could take no slot of the account");
  }
  if (silent != 0) line.add(" (").number(silent).add(" more)");
  line.add("\n");
  print(line);
}

void print_closed(const char* directory, const char* reason) {
  static std::atomic<bool> said;
  if (said.exchange(true)) return;
  Line line;
  line.add("berth: GPU access refused: the grant in ").add(directory).add(" cannot be used: ");
  line.add(reason).add("\n");
  print(line);
}

}  // namespace berth::guard
