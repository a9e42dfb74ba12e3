// Random histories against the naive books: after every step both must say the same.
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/shrink_test.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_world_test.h"
#include "core/ledger/naive_books_test.h"

namespace berth::core {
namespace {

enum class Step : std::uint8_t {
  book,
  unbook,
  initialized,
  releasing,
  keep_promise,
  observe,
  time,
  cordon,
  health,
  node,
  kCount
};

// One step; what its numbers mean depends on the kind. Any subsequence of steps can be run: a step
// that makes no sense where it stands does nothing.
struct Op {
  Step step = Step::time;
  std::uint32_t who = 0;      // workload slot
  std::uint32_t device = 0;   // 0-5
  std::uint32_t devices = 0;  // bits
  std::int64_t mib = 0;
  std::int64_t more = 0;
  std::uint32_t flags = 0;
};

constexpr std::uint32_t kSlots = 12;
constexpr std::uint32_t kPerNode = 3;
constexpr std::uint32_t kDevices = 2 * kPerNode;

Op random_op(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  // Half of all steps book or unbook.
  const std::uint64_t dice = below(20);
  Op op;
  op.step = dice < 7    ? Step::book
            : dice < 10 ? Step::unbook
            : dice < 14 ? Step::observe
                        : static_cast<Step>(below(static_cast<std::uint64_t>(Step::kCount)));
  op.who = static_cast<std::uint32_t>(below(kSlots));
  op.device = static_cast<std::uint32_t>(below(kDevices));
  op.devices = static_cast<std::uint32_t>(1 + below((1U << kPerNode) - 1));
  op.mib = static_cast<std::int64_t>(below(6) == 0 ? 1 + below(20'000) : 512 * (1 + below(15)));
  op.more = static_cast<std::int64_t>(below(8000));
  op.flags = static_cast<std::uint32_t>(random());
  return op;
}

std::string describe(const Op& op) {
  constexpr const char* kNames[] = {"book",    "unbook", "initialized", "releasing", "keep promise",
                                    "observe", "time",   "cordon",      "health",    "node"};
  return fmt::format("{}: slot {}, device {}, devices {:b}, {} MiB, {}, flags {:x}",
                     kNames[static_cast<std::size_t>(op.step)], op.who, op.device, op.devices,
                     op.mib, op.more, op.flags & 0xFFFF);
}

class History {
 public:
  History() : ledger_(fleet_, rules()), books_(fleet_, rules()) {
    upsert(0, 7, 8000);
    upsert(1, 7, 16'000);
  }

  // What differs or is wrong after the step.
  Result<void> run(const Op& op) {
    TRY_VOID(act(op));
    ledger_.age_samples(now_);
    TRY_VOID(ledger_.check());
    return books_.compare(ledger_, now_);
  }

  // Everything ends: the books must be empty.
  Result<void> finish() {
    while (!books_.live().empty()) {
      unbook(books_.live().front().workload);
    }
    for (std::uint32_t d = 0; d < kDevices; ++d) {
      const DeviceId id = device(d);
      if (id.is_none()) {
        continue;
      }
      const DeviceBook& book = ledger_.book(id);
      const std::int64_t rest =
          book.requests + book.charged + book.limits + book.nano + book.compute + book.releasing;
      if (rest != 0 || !book.holdings.empty()) {
        return Error(ErrorCode::internal, fmt::format("d{} still has {} on its books", d, rest));
      }
    }
    return books_.compare(ledger_, now_);
  }

 private:
  static LedgerRules rules() {
    LedgerRules rules;
    rules.max_sample_age = Duration(2000);
    rules.limit_overcommit_percent = 150;
    return rules;
  }

  DeviceId device(std::uint32_t index) const {
    return fleet_.find_device("d" + std::to_string(index));
  }

  bool present(std::uint32_t index) const {
    return !device(index).is_none() && fleet_.present(device(index));
  }

  void upsert(std::uint32_t index, std::uint32_t devices, std::int64_t usable_mib) {
    Node node;
    node.name = "n" + std::to_string(index);
    node.cpu = Milli(32'000);
    node.ram = Memory::mib(64'000);
    for (std::uint32_t i = 0; i < kPerNode; ++i) {
      if ((devices >> i & 1U) != 0) {
        node.devices.push_back(LedgerWorld::device("d" + std::to_string(index * kPerNode + i),
                                                   usable_mib + std::int64_t{100} * i));
      }
    }
    const Fleet::Change change = fleet_.upsert(node).value();
    ledger_.sync_node(change.node, now_);
    forget(change.removed);
    std::vector<WorkloadId> lost;
    for (const NaiveBooks::Live& live : books_.live()) {
      if (std::ranges::any_of(live.grant.charges, [&](const DeviceCharge& charge) {
            return !fleet_.present(charge.device);
          })) {
        lost.push_back(live.workload);
      }
    }
    for (const WorkloadId workload : lost) {
      unbook(workload);
    }
  }

  void forget(const std::vector<DeviceId>& gone) {
    for (const DeviceId id : gone) {
      ledger_.forget_samples(id);
      books_.forget(id);
    }
  }

  void unbook(WorkloadId workload) {
    ledger_.unbook(workload, books_.find(workload)->grant);
    books_.unbook(workload);
  }

  Grant grant_for(const Op& op, NodeId node, std::uint32_t first) const {
    Grant grant;
    grant.node = node;
    grant.cpu = Milli(op.more);
    grant.ram = Memory::mib(op.mib);
    grant.state = (op.flags & 1U) != 0 ? GrantState::promised : GrantState::granted;
    grant.starting = (op.flags & 2U) != 0;
    for (std::uint32_t i = 0; i < kPerNode; ++i) {
      if ((op.devices >> i & 1U) == 0 || !present(first + i)) {
        continue;
      }
      DeviceCharge charge;
      charge.device = device(first + i);
      charge.exclusive = (op.flags & 0x1CU) == 0x1CU;
      charge.running_mib = op.mib;
      if (charge.exclusive) {
        charge.running_mib =
            books_.face(charge.device, now_, false).headroom / Memory::kBytesPerMib;
      }
      charge.starting_mib = charge.running_mib + (charge.exclusive ? 0 : op.more / 2);
      charge.running_limit_mib = charge.running_mib + op.more;
      charge.starting_limit_mib = charge.starting_mib + op.more;
      charge.running_nano = (op.flags & 0x20U) != 0 ? op.more * 40'000 : 0;
      charge.starting_nano = charge.running_nano * 2;
      charge.compute_milli = (op.flags & 0x40U) != 0 ? static_cast<int>(op.more / 16) : 0;
      charge.mode =
          (op.flags & 0x180U) == 0x180U ? SharingMode::sm_sharing : SharingMode::time_slicing;
      grant.charges.push_back(charge);
    }
    return grant;
  }

  // Whether the rules admit the charge on what the naive books say of the device.
  bool admissible(const DeviceCharge& charge, bool starting) const {
    const DeviceFace face = books_.face(charge.device, now_, false);
    if (charge.exclusive) {
      return face.idle;
    }
    return face.blocked == Cause::none && face.use != DeviceUse::whole &&
           (face.use == DeviceUse::free || face.mode == charge.mode) &&
           Memory::mib(starting ? charge.starting_mib : charge.running_mib).in_bytes() <=
               face.headroom &&
           (starting ? charge.starting_nano : charge.running_nano) <= face.nano_left &&
           charge.compute_milli <= face.compute_left;
  }

  Result<void> book(const Op& op) {
    const WorkloadId workload(op.who);
    const std::uint32_t first = op.device < kPerNode ? 0 : kPerNode;
    const NodeId node = fleet_.find_node(first == 0 ? "n0" : "n1");
    if (books_.find(workload) != nullptr) {
      return success();
    }
    const Grant grant = grant_for(op, node, first);
    const bool decided = std::ranges::all_of(grant.charges, [&](const DeviceCharge& charge) {
      return admissible(charge, grant.starting);
    });
    const bool may_be_adopted =
        (op.flags & 0x600U) == 0x600U &&
        std::ranges::none_of(grant.charges, [&](const DeviceCharge& charge) {
          return charge.exclusive ||
                 books_.face(charge.device, now_, false).use == DeviceUse::whole;
        });
    if (!decided && !may_be_adopted) {
      Transaction attempt(ledger_);
      attempt.book(workload, grant);
      return success();  // and is rolled back: compare() sees whether anything stays behind
    }
    ledger_.book(workload, grant);
    books_.book(workload, grant);
    if (decided) {
      for (const DeviceCharge& charge : grant.charges) {
        const DeviceBook& page = ledger_.book(charge.device);
        if (page.committed() > page.usable) {
          return Error(ErrorCode::internal,
                       fmt::format("{} bytes over-promised on {}", page.committed() - page.usable,
                                   fleet_.uuid(charge.device)));
        }
      }
    }
    return success();
  }

  void observe(const Op& op) {
    if (!present(op.device)) {
      return;
    }
    Sample sample;
    sample.sampled_at = now_ - Duration(op.more / 4);
    if ((op.flags & 7U) != 0) {
      sample.used = Memory::mib(op.mib).in_bytes();
    }
    sample.attributed = (op.flags & 8U) != 0;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      if ((op.flags >> (8 + slot) & 1U) != 0) {
        sample.uses.push_back({WorkloadId(slot), Memory::mib(op.more / (1 + slot)).in_bytes()});
      }
    }
    ledger_.observe(device(op.device), sample, now_);
    books_.observe(device(op.device), sample);
  }

  Result<void> act(const Op& op) {
    const WorkloadId workload(op.who);
    NaiveBooks::Live* live = books_.find(workload);
    switch (op.step) {
      case Step::book: return book(op);
      case Step::unbook:
        if (live != nullptr) {
          unbook(workload);
        }
        break;
      case Step::initialized:
        if (live != nullptr && live->grant.starting) {
          ledger_.shrink(workload, live->grant);
          books_.initialized(workload);
        }
        break;
      case Step::releasing:
        if (live != nullptr && live->grant.state != GrantState::promised) {
          const bool on = live->grant.state != GrantState::releasing;
          ledger_.set_releasing(workload, live->grant, on);
          books_.set_state(workload, on ? GrantState::releasing : GrantState::active);
        }
        break;
      case Step::keep_promise:
        if (live != nullptr && live->grant.state == GrantState::promised) {
          ledger_.keep_promise(workload, live->grant);
          books_.set_state(workload, GrantState::granted);
        }
        break;
      case Step::observe: observe(op); break;
      case Step::time: now_ = now_ + Duration(op.more / 4); break;
      case Step::cordon:
      case Step::health:
        if (present(op.device)) {
          const DeviceId id = device(op.device);
          op.step == Step::cordon
              ? fleet_.set_cordoned(id, (op.flags & 1U) != 0)
              : fleet_.set_health(
                    id, (op.flags & 1U) != 0 ? DeviceHealth::unhealthy : DeviceHealth::ok);
          ledger_.sync_device(id, now_);
        }
        break;
      case Step::node: upsert(op.device % 2, op.flags & 7U, op.mib + op.more); break;
      case Step::kCount: break;
    }
    return success();
  }

  Fleet fleet_;
  Ledger ledger_;
  NaiveBooks books_;
  Time now_;
};

// The first failure of a history, in words; empty when all is well.
std::string failure_of(const std::vector<Op>& ops) {
  History history;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (const Result<void> result = history.run(ops[i]); !result.ok()) {
      return fmt::format("after step {}: {}", i + 1, result.error().message());
    }
  }
  const Result<void> end = history.finish();
  return end.ok() ? "" : "at the end: " + end.error().message();
}

TEST(LedgerProperty, SaysWhatTheNaiveBooksSayAfterEveryStep) {
  constexpr std::size_t kSteps = 200;
  const bool soak = std::getenv("BERTH_SOAK") != nullptr;
  const std::uint64_t histories = soak ? 25'000 : 500;
  for (std::uint64_t seed = 1; seed <= histories; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Op> ops(kSteps);
    std::ranges::generate(ops, [&] { return random_op(random); });
    if (failure_of(ops).empty()) {
      continue;
    }
    const std::vector<Op> shortest =
        shrink(ops, [](const std::vector<Op>& some) { return !failure_of(some).empty(); });
    std::string text = fmt::format("seed {}: {}\n", seed, failure_of(shortest));
    for (const Op& op : shortest) {
      fmt::format_to(std::back_inserter(text), "  {}\n", describe(op));
    }
    FAIL() << text;
  }
}

}  // namespace
}  // namespace berth::core
