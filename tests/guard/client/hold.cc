// hold MIB: takes MIB on the first device, says "held" and keeps it until standard input ends.
// storm DIRECTORY SECONDS SEED: see below. short COUNT: see below.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "grant/directory.h"
#include "verbs.h"

namespace berth::guard_test {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Allocates and frees until it is killed.
[[noreturn]] void churn(unsigned seed) {
  Cuda cu;
  if (!cu.load() || cu.start() != 0) _exit(1);
  std::minstd_rand random(seed);
  std::vector<Ptr> live;
  for (;;) {
    Ptr pointer = 0;
    if (live.size() < 20 && random() % 2 == 0) {
      if (cu.cuMemAlloc_v2(&pointer, random() % (32U << 20U) + 1) == 0) live.push_back(pointer);
    } else if (!live.empty()) {
      cu.cuMemFree_v2(live.back());
      live.pop_back();
    }
  }
}

// A fresh process: milliseconds from its start of CUDA to its first allocation.
double first_allocation(std::size_t bytes) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    Cuda cu;
    const auto begin = Clock::now();
    Ptr pointer = 0;
    double ms = -1;
    if (cu.load() && cu.start() == 0 && cu.cuMemAlloc_v2(&pointer, bytes) == 0) {
      ms = ms_since(begin);
    }
    const bool told = write(ends[1], &ms, sizeof(ms)) == sizeof(ms);
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  double ms = -1;
  if (read(ends[0], &ms, sizeof(ms)) != sizeof(ms)) ms = -1;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return ms;
}

std::int64_t charged(const std::string& directory) {
  const auto grant = grant::GrantDirectory::open(directory);
  return grant.ok() ? grant->read().devices.at(0).charged.in_bytes() : -1;
}

}  // namespace

int run_hold(int argc, char** argv) {
  if (argc != 1) return 2;
  Cuda cu;
  if (!cu.load()) return 1;
  int code = cu.start();
  Ptr pointer = 0;
  if (code == 0) code = cu.cuMemAlloc_v2(&pointer, number(argv[0]) << 20U);
  std::printf(code == 0 ? "held\n" : "code %d\n", code);
  while (getchar() != EOF) {
  }
  return code == 0 ? 0 : 1;
}

// Kills churning processes at random times, then starts a fresh one and measures how long its
// first allocation takes, and how long until the account holds nothing. Prints
// "rounds N, fresh F ms, back B ms, left L" with the worst of all rounds.
int run_storm(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string directory = argv[0];
  const auto end = Clock::now() + std::chrono::seconds(number(argv[1]));
  std::minstd_rand random(static_cast<unsigned>(number(argv[2])));
  int rounds = 0;
  double fresh = 0;
  double back = 0;
  std::int64_t left = 0;
  while (Clock::now() < end) {
    std::vector<pid_t> workers;
    for (unsigned i = 0; i < 4; ++i) {
      const pid_t child = fork();
      if (child == 0) churn(static_cast<unsigned>(random()) + i);
      workers.push_back(child);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(5'000 + random() % 20'000));
    for (const pid_t worker : workers)
      kill(worker, SIGKILL);
    for (const pid_t worker : workers)
      waitpid(worker, nullptr, 0);
    const auto dead = Clock::now();
    // As the agent does, woken by the deaths.
    if (rounds % 2 == 0) {
      auto grant = grant::GrantDirectory::open(directory);
      if (grant.ok()) grant->reclaim();
      back = std::max(back, ms_since(dead));
      left = std::max(left, charged(directory));
    }
    const double ms = first_allocation(900U << 20U);
    if (ms < 0) {
      std::printf("a fresh process was refused after round %d, charged %ld\n", rounds,
                  charged(directory));
      return 1;
    }
    fresh = std::max(fresh, ms);
    ++rounds;
  }
  auto grant = grant::GrantDirectory::open(directory);
  if (grant.ok()) grant->reclaim();
  left = std::max(left, charged(directory));
  std::printf("rounds %d, fresh %.2f ms, back %.2f ms, left %ld\n", rounds, fresh, back, left);
  return left == 0 ? 0 : 1;
}

// short COUNT: that many short processes at once, each takes and returns a little. Prints
// "done D of COUNT".
int run_short(int argc, char** argv) {
  if (argc != 1) return 2;
  const auto count = static_cast<int>(number(argv[0]));
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      Cuda cu;
      Ptr pointer = 0;
      const bool good = cu.load() && cu.start() == 0 && cu.cuMemAlloc_v2(&pointer, 4096) == 0;
      _exit(good ? 0 : 1);
    }
    if (child > 0) children.push_back(child);
  }
  int done = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (status == 0) ++done;
  }
  std::printf("done %d of %d\n", done, count);
  return done == count ? 0 : 1;
}

}  // namespace berth::guard_test
