// Model check of the word protocol: every interleaving of small worlds, with deaths at every
// access.
//
// The functions under test are the production functions of word.h, run one memory access at a time:
// a process's local state is the list of results its accesses gave since its call began (and since
// the last turn of a retry loop, where nothing is carried over), so replaying that list and then
// doing one more access is one step. States are merged by what memory, processes and lists hold.
// At every state reached: what the slots hold, settled on a frozen copy, sums up to the word; the
// word is within the cap; and what a live process believes to hold is what the books say.
#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "guard/layout.h"
#include "guard/word.h"

namespace berth::guard {
namespace {

constexpr std::uint32_t kSlots = 3;

struct Memory {
  Cell word;
  SlotRecord records[kSlots];

  DeviceBooks books() { return {.word = &word, .records = records, .n_slots = kSlots}; }
};
static_assert(std::is_trivially_copyable_v<std::uint64_t>);

using Image = std::array<std::uint64_t, sizeof(Memory) / 8>;

struct Stopped {};  // thrown at the access after the one that was to be done

// Replays `log`, does one access for real, then stops its process.
class SteppedAccess {
 public:
  struct Log {
    std::vector<std::uint64_t> results;
    std::size_t head = 0;  // accesses before the loop
    bool in_loop = false;
    bool operator==(const Log&) const = default;
  };

  // With `only`, no other cell can be exchanged: a protocol that forgets to acknowledge.
  SteppedAccess(Log& log, const Cell* only) : log_(log), only_(only) {}

  std::uint64_t load(const Cell& cell) {
    return step([&] { return cell.load(); });
  }

  void store(Cell& cell, std::uint64_t value) {
    step([&] {
      cell.store(value);
      return std::uint64_t{0};
    });
  }

  bool exchange(Cell& cell, std::uint64_t expected, std::uint64_t desired) {
    return step([&]() -> std::uint64_t {
             if (only_ != nullptr && &cell != only_) return 0;
             return cell.compare_exchange_strong(expected, desired) ? 1 : 0;
           }) != 0;
  }

  void turn() {
    if (!log_.in_loop) {
      log_.in_loop = true;
      log_.head = next_;
    } else if (next_ > log_.head) {
      log_.results.resize(log_.head);
      next_ = log_.head;
    }
  }

 private:
  template <typename Do>
  std::uint64_t step(Do&& access) {
    if (next_ < log_.results.size()) return log_.results[next_++];
    if (stepped_) throw Stopped{};
    stepped_ = true;
    log_.results.push_back(access());
    return log_.results[next_++];
  }

  Log& log_;
  const Cell* only_;
  std::size_t next_ = 0;
  bool stepped_ = false;
};

// A worker owns one slot: it gives back what a former owner left, then runs its script.
// A reclaimer takes the slot of a dead worker (the kernel's lock makes it the only one).
struct Process {
  bool alive = true;
  int slot = -1;           // held; -1: a reclaimer without work
  std::size_t at = 0;      // 0: giving back; then script position + 1
  std::uint64_t held = 0;  // what it believes to hold
  SteppedAccess::Log log = {};

  static Process with(int slot) {
    Process process;
    process.slot = slot;
    return process;
  }
};

struct World {
  std::vector<std::vector<std::int64_t>> scripts;  // one worker per script, slot = its place
  int reclaimers = 1;
  std::uint64_t cap = 10;
  int deaths = 1;
  int restarts = 1;                // fresh workers on slots of the dead
  std::uint64_t first_number = 0;  // operations done before the world begins
  bool acknowledges = true;        // false: a broken protocol, which the search must find
};

struct State {
  Image memory{};
  std::vector<Process> processes;
  int deaths = 0;
  int restarts = 0;

  std::string key() const {
    std::string key(reinterpret_cast<const char*>(memory.data()), sizeof(memory));
    for (const Process& p : processes) {
      key += '|';
      key += static_cast<char>('a' + (p.alive ? 1 : 0));
      key += static_cast<char>('a' + p.slot + 1);
      key += static_cast<char>('a' + static_cast<int>(p.at));
      key += std::to_string(p.held) + (p.log.in_loop ? 'l' : 'h');
      for (const std::uint64_t r : p.log.results)
        key += std::to_string(r) + ',';
    }
    key += std::to_string(deaths) + '/' + std::to_string(restarts);
    return key;
  }
};

class Explorer {
 public:
  explicit Explorer(World world) : world_(std::move(world)) {}

  void run() {
    State first;
    for (std::size_t i = 0; i < world_.scripts.size(); ++i)
      first.processes.push_back(Process::with(static_cast<int>(i)));
    for (int i = 0; i < world_.reclaimers; ++i)
      first.processes.push_back(Process::with(-1));
    first.deaths = world_.deaths;
    first.restarts = world_.restarts;
    load(first.memory);
    memory_->word.store(kEmptyWord);
    for (SlotRecord& record : memory_->records) {
      record.want.store(world_.first_number);
      record.done.store(world_.first_number);
    }
    first.memory = image();
    visit(first);
    while (!todo_.empty() && failure_.empty()) {
      const State state = std::move(todo_.back());
      todo_.pop_back();
      expand(state);
    }
  }

  std::size_t states() const { return seen_.size(); }

  std::size_t ends() const { return ends_; }

  int refusals() const { return refusals_; }

  const std::string& failure() const { return failure_; }

 private:
  bool is_worker(std::size_t i) const { return i < world_.scripts.size(); }

  void load(const Image& from) {
    std::memcpy(static_cast<void*>(memory_.get()), from.data(), sizeof(from));
  }

  Image image() const {
    Image out{};
    std::memcpy(out.data(), static_cast<const void*>(memory_.get()), sizeof(out));
    return out;
  }

  void visit(State& state) {
    // Two independent 64-bit hashes would do; the whole key keeps the claim exact.
    if (!seen_.insert(state.key()).second) return;
    check(state);
    todo_.push_back(state);
  }

  void check(const State& state) {
    std::uint64_t sum = 0;
    std::array<std::uint64_t, kSlots> held{};
    load(state.memory);
    const std::uint64_t word = memory_->word.load();
    DirectAccess access;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      held[slot] = settle_slot(access, memory_->books(), slot);
      sum += held[slot];
    }
    if (sum != bytes_of(word)) {
      failure_ =
          "slots hold " + std::to_string(sum) + ", the word says " + std::to_string(bytes_of(word));
    }
    if (bytes_of(word) > world_.cap) failure_ = "cap passed: " + std::to_string(bytes_of(word));
    for (const Process& p : state.processes) {
      if (!p.alive || p.slot < 0 || p.at == 0 || !p.log.results.empty()) continue;
      if (p.held != held[static_cast<std::size_t>(p.slot)]) {
        failure_ = "slot " + std::to_string(p.slot) + " believes to hold " +
                   std::to_string(p.held) + ", the books say " +
                   std::to_string(held[static_cast<std::size_t>(p.slot)]);
      }
    }
  }

  // Does one access of process i. False: it has nothing left to do.
  bool step(State& state, std::size_t i) {
    Process& p = state.processes[i];
    const bool worker = is_worker(i);
    if (p.slot < 0 || !p.alive) return false;
    if (worker && p.at > world_.scripts[i].size()) return false;
    load(state.memory);
    SteppedAccess access(p.log, world_.acknowledges ? nullptr : &memory_->word);
    const auto slot = static_cast<std::uint32_t>(p.slot);
    try {
      if (p.at == 0) {
        give_back(access, memory_->books(), slot);
        p.held = 0;
      } else {
        const std::int64_t delta = world_.scripts[i][p.at - 1];
        // What was refused before is not given back.
        const bool skip = delta < 0 && p.held < static_cast<std::uint64_t>(-delta);
        if (!skip) {
          const Charge charge{.slot = slot, .held = p.held, .delta = delta, .cap = world_.cap};
          if (apply_charge(access, memory_->books(), charge)) {
            p.held = changed_by(p.held, delta);
          } else {
            ++refusals_;
          }
        }
      }
      ++p.at;
      p.log = {};
      if (!worker) p = Process::with(-1);
      // NOLINTNEXTLINE(bugprone-empty-catch): one access was made, which is all
    } catch (const Stopped&) {
    }
    state.memory = image();
    return true;
  }

  static bool has_lock(const State& state, int slot) {
    for (const Process& p : state.processes) {
      if (p.alive && p.slot == slot) return true;
    }
    return false;
  }

  void expand(const State& state) {
    bool moved = false;
    for (std::size_t i = 0; i < state.processes.size(); ++i) {
      State next = state;
      if (step(next, i)) {
        moved = true;
        visit(next);
      }
      const Process& p = state.processes[i];
      if (p.alive && p.slot >= 0 && state.deaths > 0) {
        next = state;
        --next.deaths;
        next.processes[i].log = {};
        if (is_worker(i)) {
          next.processes[i].alive = false;
        } else {
          next.processes[i] = Process::with(-1);  // the next reclaimer is another process
        }
        visit(next);
      }
      moved |= take_over(state, i);
    }
    if (!moved) ++ends_;
  }

  // An idle reclaimer takes the slot of a dead worker; a fresh worker takes it over.
  bool take_over(const State& state, std::size_t i) {
    bool moved = false;
    const Process& p = state.processes[i];
    if (!is_worker(i) && p.slot < 0) {
      for (std::size_t w = 0; w < world_.scripts.size(); ++w) {
        const int slot = static_cast<int>(w);
        if (state.processes[w].alive || has_lock(state, slot)) continue;
        load(state.memory);
        DirectAccess access;
        if (settle_slot(access, memory_->books(), static_cast<std::uint32_t>(slot)) == 0) continue;
        State next = state;
        next.processes[i] = Process::with(slot);
        visit(next);
        moved = true;
      }
    }
    if (is_worker(i) && !p.alive && state.restarts > 0 && !has_lock(state, p.slot)) {
      State next = state;
      --next.restarts;
      next.processes[i] = Process::with(p.slot);
      visit(next);
      moved = true;
    }
    return moved;
  }

  World world_;
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
  std::unordered_set<std::string> seen_;
  std::vector<State> todo_;
  std::size_t ends_ = 0;
  int refusals_ = 0;
  std::string failure_;
};

void explore(const World& world, std::size_t at_least) {
  Explorer explorer(world);
  explorer.run();
  EXPECT_EQ(explorer.failure(), "");
  EXPECT_GE(explorer.states(), at_least) << "the search was cut short";
  EXPECT_GT(explorer.ends(), 0U);
  std::cerr << "    " << explorer.states() << " states, " << explorer.ends() << " ends, "
            << explorer.refusals() << " refusals\n";
}

TEST(WordExplorer, TwoProcessesAndAReclaimerWithTwoDeaths) {
  explore({.scripts = {{6, -6, 3}, {6, -6}}, .deaths = 2, .restarts = 1}, 1000);
}

TEST(WordExplorer, OperationNumbersThatWrapRound) {
  explore({.scripts = {{6, -6}, {6, -6}}, .deaths = 1, .restarts = 1, .first_number = 1023}, 1000);
}

TEST(WordExplorer, ThreeProcessesWithOneDeath) {
  explore({.scripts = {{6}, {5}, {4, -4}}, .deaths = 1, .restarts = 0}, 1000);
}

TEST(WordExplorer, TwoReclaimersWhoDieThemselves) {
  explore({.scripts = {{6, -2}, {4}}, .reclaimers = 2, .deaths = 3, .restarts = 0}, 1000);
}

TEST(WordExplorer, FindsWhatAProtocolWithoutAcknowledgementLoses) {
  Explorer explorer({.scripts = {{6}, {4}}, .deaths = 1, .acknowledges = false});
  explorer.run();
  EXPECT_NE(explorer.failure(), "");
}

TEST(WordExplorerSoak, ThreeProcessesReleaseDieAndComeBack) {
  if (std::getenv("BERTH_SOAK") == nullptr) GTEST_SKIP() << "only in make soak";
  explore({.scripts = {{6, -6}, {5, -5}, {4}}, .deaths = 2, .restarts = 1}, 1'000'000);
}

}  // namespace
}  // namespace berth::guard
