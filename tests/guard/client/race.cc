// race PROCESSES ROUNDS MIB LIMIT_MIB: every round all processes ask for MIB at once; the rounds in
// which more was granted than LIMIT_MIB are counted. Prints "over N of ROUNDS, granted G".
#include <atomic>
#include <cstdio>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs.h"

namespace berth::guard_test {

namespace {

struct Shared {
  std::atomic<std::uint64_t> arrived;
  std::atomic<std::uint64_t> granted;  // bytes in this round
  std::atomic<std::uint64_t> total;    // grants in all rounds
  std::atomic<std::uint64_t> over;
  std::atomic<bool> failed;
};

// All processes have come as often as this one. Waiting gives the processor away.
void barrier(Shared& shared, std::uint64_t processes, std::uint64_t& turn) {
  ++turn;
  shared.arrived.fetch_add(1);
  while (shared.arrived.load() < turn * processes && !shared.failed.load())
    sched_yield();
}

int racer(Shared& shared, std::uint64_t processes, std::uint64_t rounds, std::uint64_t bytes,
          std::uint64_t limit, bool first) {
  Cuda cu;
  if (!cu.load() || cu.start() != 0) {
    shared.failed = true;
    return 1;
  }
  std::uint64_t turn = 0;
  for (std::uint64_t round = 0; round < rounds && !shared.failed; ++round) {
    barrier(shared, processes, turn);
    Ptr pointer = 0;
    const int code = cu.cuMemAlloc_v2(&pointer, bytes);
    if (code == 0) {
      shared.granted.fetch_add(bytes);
      shared.total.fetch_add(1);
    } else if (code != 2) {
      std::fprintf(stderr, "unexpected code %d\n", code);
      shared.failed = true;
    }
    barrier(shared, processes, turn);
    if (first) {
      if (shared.granted.load() > limit) shared.over.fetch_add(1);
      shared.granted = 0;
    }
    if (code == 0) cu.cuMemFree_v2(pointer);
  }
  return shared.failed ? 1 : 0;
}

}  // namespace

int run_race(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::uint64_t processes = number(argv[0]);
  const std::uint64_t rounds = number(argv[1]);
  const std::uint64_t bytes = number(argv[2]) << 20U;
  const std::uint64_t limit = number(argv[3]) << 20U;
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (std::uint64_t i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(racer(*shared, processes, rounds, bytes, limit, i == 0));
  }
  bool good = true;
  for (std::uint64_t i = 0; i < processes; ++i) {
    int status = 0;
    good = wait(&status) > 0 && status == 0 && good;
  }
  std::printf("over %lu of %lu, granted %lu\n", shared->over.load(), rounds, shared->total.load());
  return good ? 0 : 1;
}

}  // namespace berth::guard_test
