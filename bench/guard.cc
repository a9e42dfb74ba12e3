// What the guard costs and whether it holds: programs on the fake driver, with the library and
// without it, in the same run. The rows are named as the issue of the guard names them.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "grant/spec.h"
#include "suite.h"

namespace berth::bench {

namespace {

// A fake machine and a grant, for one measurement.
class GuardMachine {
 public:
  GuardMachine(const Context& context, std::int64_t limit_mib, int share = 0) {
    build_ = std::filesystem::path(context.self).parent_path().parent_path().string();
    std::string pattern = "/tmp/guard-bench-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
    fake("init 1x80GiB --driver 570 --context-bytes 16MiB");
    const auto dump = nlohmann::json::parse(fake("dump -o json"), nullptr, false);
    if (dump.is_discarded()) return;
    grant::GrantSpec spec;
    spec.id = "bench";
    spec.closed = true;
    if (share != 0) spec.share = Milli(share);
    const auto uuid = grant::parse_uuid(dump["devices"][0]["uuid"].get<std::string>());
    if (!uuid.ok()) return;
    const Memory limit = Memory::mib(limit_mib);
    spec.devices.push_back({.uuid = *uuid,
                            .request = limit,
                            .limit = limit,
                            .cap = limit,
                            .context_bytes = Memory::mib(16)});
    good_ = grant::create(folder_ + "/grant", spec).ok();
  }

  GuardMachine(const GuardMachine&) = delete;
  GuardMachine& operator=(const GuardMachine&) = delete;

  ~GuardMachine() {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  bool good() const { return good_; }

  std::string grant_directory() const { return folder_ + "/grant"; }

  std::string guard_file() const { return build_ + "/lib/libberth_guard.so"; }

  std::string folder() const { return folder_; }

  // Standard output of guard_client, under the guard or bare.
  std::string client(const std::string& words, bool guarded) const {
    return program("tests/guard_client " + words, guarded);
  }

  // Standard output of any program of the build.
  std::string program(const std::string& words, bool guarded) const {
    return output(fmt::format(
        "BERTH_FAKE_STATE={0}/state BERTH_GRANT_DIR={0}/grant LD_LIBRARY_PATH={1}/fake {2} "
        "{1}/{3} 2>/dev/null",
        folder_, build_, guarded ? "LD_PRELOAD=" + guard_file() : "", words));
  }

  // Where the fake driver's own cuGetProcAddress_v2 lies in its library.
  std::string resolver() const {
    const std::string text = output(fmt::format(
        "nm -D {}/fake/libcuda.so.1 | awk '$3 == \"cuGetProcAddress_v2\" {{print $1}}'", build_));
    return text.substr(0, text.find('\n'));
  }

  // Kernels that declare no duration take none: what is left is the call.
  void launches_take_no_time() const { fake("set launch-time=0us"); }

 private:
  std::string fake(const std::string& words) const {
    return output(fmt::format("BERTH_FAKE_STATE={}/state {}/bin/berth-fake-gpu {} 2>/dev/null",
                              folder_, build_, words));
  }

  static std::string output(const std::string& command) {
    FILE* pipe = popen(command.c_str(), "r");
    std::string text;
    std::array<char, 4096> buffer{};
    while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe) != nullptr)
      text += buffer.data();
    if (pipe != nullptr) pclose(pipe);
    return text;
  }

  std::string build_;
  std::string folder_;
  bool good_ = false;
};

Error no_client() {
  return {ErrorCode::unavailable,
          "the fake driver or guard_client did not run; build everything and try again"};
}

struct Cost {
  double bare = 0;
  double over = 0;  // with the guard, less bare
  double spread = 0;
};

// The best of several runs each; runs alternate, so that a busy machine is busy for both.
// Without a linked driver a bare program has no direct road: `bare` names what it does instead.
Result<Cost> cost_of(const GuardMachine& host, const Context& context, const std::string& words,
                     const std::string& bare_words = {}) {
  double bare = 1e18;
  double guarded = 1e18;
  Cost cost;
  for (int i = 0; i < std::max(5, context.repetitions); ++i) {
    for (const bool with : {false, true}) {
      std::istringstream text(
          host.client("bench " + (with || bare_words.empty() ? words : bare_words), with));
      double best = 0;
      double spread = 0;
      if (!(text >> best)) return no_client();
      text >> spread;
      double& to = with ? guarded : bare;
      if (best < to) {
        to = best;
        if (with) cost.spread = spread;
      }
    }
  }
  cost.bare = bare;
  cost.over = std::max(0.0, guarded - bare);
  return cost;
}

Result<std::vector<Row>> measure_pair(const Context& context) {
  const GuardMachine host(context, 4096);
  if (!host.good()) return no_client();
  std::vector<Row> rows;
  for (const auto& [name, words] :
       {std::pair{"guard.pair.empty_ns", "pair 0"}, std::pair{"guard.pair.10k_ns", "pair 10000"},
        std::pair{"guard.meminfo_ns", "meminfo"}}) {
    TRY(const Cost cost, cost_of(host, context, words));
    rows.push_back({.name = name,
                    .unit = "ns",
                    .figures = {{.key = {},
                                 .value = cost.over,
                                 .goal = {GoalKind::at_most, 60},
                                 .spread = cost.spread}},
                    .is_time = true,
                    .baseline = cost.bare});
  }
  // CPU time of a pair, guard and driver together, less the bare one: the mean of all processes.
  const auto mean = [&](bool guarded) {
    std::istringstream text(host.client("bench crowd 8", guarded));
    double sum = 0;
    double value = 0;
    int count = 0;
    while (text >> value) {
      sum += value;
      ++count;
    }
    return count == 0 ? -1.0 : sum / count;
  };
  std::array<double, 5> over{};
  double bare = 1e18;
  for (double& difference : over) {
    const double without = mean(false);
    const double with = mean(true);
    if (without < 0 || with < 0) return no_client();
    bare = std::min(bare, without);
    difference = with - without;
  }
  // The smallest difference of two noisy means flatters; the median does not.
  std::ranges::sort(over);
  rows.push_back({.name = "guard.pair.8procs_cpu_ns",
                  .unit = "ns",
                  .figures = {{.key = {},
                               .value = over[2],
                               .goal = {GoalKind::at_most, 1000},
                               .spread = (over[4] - over[0]) / std::max(1.0, over[2])}},
                  .is_time = true,
                  .baseline = bare});
  return rows;
}

Result<std::vector<Row>> measure_launch(const Context& context) {
  const GuardMachine plain(context, 4096);
  const GuardMachine shared(context, 4096, 999);
  if (!plain.good() || !shared.good()) return no_client();
  plain.launches_take_no_time();
  shared.launches_take_no_time();
  TRY(const Cost direct, cost_of(plain, context, "launch direct", "launch dlsym"));
  TRY(const Cost limited, cost_of(shared, context, "launch dlsym"));
  // By pointer identity: 0 ns if both roads hand out the driver's own function.
  const bool same = plain.client("bench identity", true) == "1\n";
  return std::vector<Row>{
      {.name = "guard.launch_ns",
       .unit = "ns",
       .figures = {{.key = "none", .value = same ? 0.0 : 1e9, .goal = {GoalKind::at_most, 0}},
                   {.key = "limited",
                    .value = limited.over,
                    .goal = {GoalKind::at_most, 5},
                    .spread = limited.spread},
                   {.key = "direct",
                    .value = direct.over,
                    .goal = {GoalKind::at_most, 2},
                    .spread = direct.spread}},
       .baseline = direct.bare}};
}

// A copy of the library; a silent one's constructor is not called: the size of DT_INIT_ARRAY is 0.
bool copy_library(const std::string& from, const std::string& to, bool silent) {
  std::ifstream file(from, std::ios::binary);
  std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (image.size() < sizeof(Elf64_Ehdr)) return false;
  Elf64_Ehdr header;
  std::memcpy(&header, image.data(), sizeof(header));
  for (int i = 0; silent && i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment,
                image.data() + header.e_phoff + static_cast<std::size_t>(i) * sizeof(segment),
                sizeof(segment));
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::size_t at = segment.p_offset; at < segment.p_offset + segment.p_filesz;
         at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      std::memcpy(&entry, image.data() + at, sizeof(entry));
      if (entry.d_tag != DT_INIT_ARRAYSZ) continue;
      entry.d_un.d_val = 0;
      std::memcpy(image.data() + at, &entry, sizeof(entry));
    }
  }
  return std::ofstream(to, std::ios::binary)
      .write(image.data(), static_cast<std::streamsize>(image.size()))
      .good();
}

Result<std::vector<Row>> measure_start(const Context& context) {
  const GuardMachine host(context, 4096);
  // Two copies, made alike and lying side by side: how a file came to be and how long its path is
  // moves the time of loading it by microseconds.
  const std::string whole = host.folder() + "/whole_guard.so";
  const std::string silent = host.folder() + "/quiet_guard.so";
  if (!host.good() || !copy_library(host.guard_file(), whole, false) ||
      !copy_library(host.guard_file(), silent, true)) {
    return no_client();
  }
  bool ran = true;
  // By turns, so that both meet the same machine: the best of each.
  const auto both = [&](const std::string& bare, const std::string& with, bool guarded) {
    std::pair<double, double> least(1e18, 1e18);
    const auto take = [&](double& into, const std::string& words, bool under) {
      const double value = std::atof(host.client("bench " + words, under).c_str());
      ran = ran && value > 0;
      into = std::min(into, value);
    };
    for (int i = 0; i < 150; ++i) {
      take(least.first, bare, false);
      take(least.second, with, guarded);
    }
    return least;
  };
  const auto [silently, loaded] = both("dlopen " + silent, "dlopen " + whole, false);
  const auto [bare, first] = both("first", "first", true);
  if (!ran) return no_client();
  return std::vector<Row>{
      {.name = "guard.start_us",
       .unit = "us",
       .figures = {{.key = "constructor",
                    .value = loaded - silently,
                    .goal = {GoalKind::at_most, 20}},
                   {.key = "first_call", .value = first - bare, .goal = {GoalKind::at_most, 100}}},
       .baseline = bare}};
}

Result<std::vector<Row>> measure_race(const Context& context) {
  Row row{.name = "guard.race.over", .unit = "rounds", .figures = {}};
  for (const int processes : {2, 4, 8}) {
    const GuardMachine host(context, 1024 + 16 * processes);
    const std::string text = host.client(fmt::format("race {} 10000 600 1024", processes), true);
    int over = -1;
    if (std::sscanf(text.c_str(), "over %d of 10000", &over) != 1) return no_client();
    row.figures.push_back({.key = std::to_string(processes),
                           .value = static_cast<double>(over),
                           .goal = {GoalKind::at_most, 0}});
  }
  return std::vector<Row>{row};
}

Result<std::vector<Row>> measure_kill(const Context& context) {
  const GuardMachine host(context, 1100);
  const std::string text = host.client(fmt::format("storm {} 15 7", host.grant_directory()), true);
  int rounds = 0;
  double fresh = 0;
  double back = 0;
  if (std::sscanf(text.c_str(), "rounds %d, fresh %lf ms, back %lf", &rounds, &fresh, &back) != 3) {
    return no_client();
  }
  return std::vector<Row>{
      {.name = "guard.kill.stall_ms",
       .unit = "ms",
       .figures = {{.key = "fresh", .value = fresh, .goal = {GoalKind::at_most, 10}},
                   {.key = "back", .value = back, .goal = {GoalKind::at_most, 100}}}}};
}

Result<std::vector<Row>> measure_size(const Context& context) {
  const GuardMachine host(context, 1024);
  const std::string stripped = host.folder() + "/stripped.so";
  const std::string command =
      fmt::format("strip -o {} {} && stat -c %s {}", stripped, host.guard_file(), stripped);
  FILE* pipe = popen(command.c_str(), "r");
  double bytes = 0;
  const bool read = pipe != nullptr && std::fscanf(pipe, "%lf", &bytes) == 1;
  if (pipe != nullptr) pclose(pipe);
  if (!read) return no_client();
  return std::vector<Row>{
      {.name = "guard.so_kib", .unit = "KiB", .figures = {{.key = {}, .value = bytes / 1024}}}};
}

// What the suites count, as rows: each runs here again.
Result<std::vector<Row>> measure_correctness(const Context& context) {
  const GuardMachine host(context, 512);
  if (!host.good()) return no_client();
  std::vector<Row> rows;
  const auto add = [&](const char* name, const char* unit, double value) {
    rows.push_back({.name = name,
                    .unit = unit,
                    .figures = {{.key = {}, .value = value, .goal = {GoalKind::at_most, 0}}}});
  };
  const std::string steps = host.program("tests/guard_test --gtest_filter='*KillSteps*'", false);
  int wrong = 0;
  for (std::size_t at = steps.find("FAILED"); at != std::string::npos;
       at = steps.find("FAILED", at + 1))
    ++wrong;
  if (steps.find("suite ran") == std::string::npos) return no_client();
  add("guard.kill.steps", "failures", wrong);
  const std::string families = host.program("bin/berth-guard-probe", true);
  if (families.find("family") == std::string::npos) return no_client();
  int uncounted = 0;
  for (std::size_t at = families.find("NOT HELD"); at != std::string::npos;
       at = families.find("NOT HELD", at + 1))
    ++uncounted;
  add("guard.families.uncounted", "families", uncounted);
  int probes = -1;
  int matrix = -1;
  const std::string resolver = host.resolver();
  const std::string asked = host.client("abi probes " + resolver, true);
  const std::string all =
      host.client("abi matrix " + resolver + " tests/fake/cuda/symbols.txt", true);
  const auto wrong_of = [](const std::string& text, int& count) {
    const std::size_t at = text.rfind("wrong ");
    return at != std::string::npos && std::sscanf(text.c_str() + at, "wrong %d", &count) == 1;
  };
  if (!wrong_of(asked, probes) || !wrong_of(all, matrix)) return no_client();
  add("guard.gpa.wrong", "answers", probes + matrix);
  return rows;
}

constexpr std::array kMeasurements = {
    Measurement{"guard.pair", "allocation and query under the guard", measure_pair},
    Measurement{"guard.launch", "launches under the guard", measure_launch},
    Measurement{"guard.start", "start of a process under the guard", measure_start},
    Measurement{"guard.race", "races of processes at a limit", measure_race},
    Measurement{"guard.kill", "SIGKILL storms under the guard", measure_kill},
    Measurement{"guard.correct", "deaths, families and answers of the resolver",
                measure_correctness},
    Measurement{"guard.size", "size of the guard's library", measure_size},
};

}  // namespace

std::span<const Measurement> guard_measurements() { return kMeasurements; }

}  // namespace berth::bench
