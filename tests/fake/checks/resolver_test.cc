// cuGetProcAddress, checked row by row against the list of entry points and what the library
// exports.
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "fake/checks/machine.h"

namespace berth::fake::checks {
namespace {

struct Row {
  std::string symbol;
  std::string base;
  int version = 0;
  bool per_thread = false;
};

std::vector<Row> rows() {
  std::vector<Row> all;
  std::ifstream file(std::string(BERTH_SOURCE_DIR) + "/tests/fake/cuda/symbols.txt");
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Row row;
    std::string stream;
    words >> row.symbol >> row.base >> row.version >> stream;
    row.per_thread = stream != "-";
    all.push_back(row);
  }
  return all;
}

using Resolve = int(const char*, void**, int, unsigned long long, int*);
using ResolveV1 = int(const char*, void**, int, unsigned long long);

struct Answer {
  int code = -1;
  void* function = nullptr;
  int status = -1;
};

Answer ask(const char* name, int version, unsigned long long flags) {
  Answer answer;
  auto* resolve = symbol<Resolve>("libcuda.so.1", "cuGetProcAddress_v2");
  answer.code = resolve(name, &answer.function, version, flags, &answer.status);
  return answer;
}

// Worked out anew from the list: the newest form that the version has, per-thread forms first if
// wanted.
std::string expected(const std::vector<Row>& all, const std::string& base, int version,
                     bool per_thread, int newest) {
  std::map<int, std::string> plain;
  std::map<int, std::string> threaded;
  for (const Row& row : all) {
    if (row.base != base || row.version > version || row.version > newest) continue;
    (row.per_thread ? threaded : plain)[row.version] = row.symbol;
  }
  if (per_thread && !threaded.empty()) return threaded.rbegin()->second;
  return plain.empty() ? std::string() : plain.rbegin()->second;
}

TEST(FakeResolver, AnswersTheWholeMatrix) {
  const Machine machine("1x16GiB", {"--driver", "580"});
  machine.client([] {
    const std::vector<Row> all = rows();
    ASSERT_GT(all.size(), 600U);
    std::set<int> versions = {0, 1999, 7000, 13000};
    std::set<std::string> bases;
    for (const Row& row : all) {
      if (row.base == "-" || row.version >= 14000) continue;
      bases.insert(row.base);
      versions.insert(row.version);
      versions.insert(row.version - 1);
    }
    std::size_t asked = 0;
    for (const std::string& base : bases) {
      for (const int version : versions) {
        if (version > 13000) continue;
        for (const unsigned long long flags : {0ULL, 1ULL, 2ULL}) {
          const Answer answer = ask(base.c_str(), version, flags);
          const std::string symbol_name = expected(all, base, version, flags == 2, 13000);
          void* wanted =
              symbol_name.empty() ? nullptr : find_symbol("libcuda.so.1", symbol_name.c_str());
          ASSERT_EQ(answer.code, 0);
          ASSERT_EQ(answer.function, wanted) << base << " " << version << " " << flags;
          ASSERT_EQ(answer.status, wanted == nullptr ? 2 : 0) << base << " " << version;
          ++asked;
        }
      }
    }
    EXPECT_GT(asked, 50'000U);
  });
}

TEST(FakeResolver, TellsUnknownNamesFromVersionsThatAreTooOld) {
  const Machine machine("1x16GiB", {"--driver", "535"});
  machine.client([] {
    EXPECT_EQ(ask("cuNoSuch", 12000, 0).status, 1);
    EXPECT_EQ(ask("cuNoSuch", 12000, 0).code, 0);
    EXPECT_EQ(ask("", 0, 0).status, 1);
    EXPECT_EQ(ask("cuMemAllocAsync", 11010, 0).status, 2);
    EXPECT_EQ(ask("cuMemAlloc_v2", 12000, 0).status, 1) << "names are base names";
    EXPECT_EQ(ask("cuMemAlloc", 12030, 0).code, 1) << "the driver is 12.2";
    EXPECT_EQ(ask("cuMemAlloc", 12020, 0).code, 0);
    EXPECT_EQ(ask("cuMemAlloc", 12020, 3).code, 1) << "no such flag";
    EXPECT_EQ(ask("cuGreenCtxCreate", 12020, 0).status, 1) << "of a later driver";
    EXPECT_EQ(ask(nullptr, 12000, 0).code, 1);
    auto* resolve = symbol<Resolve>("libcuda.so.1", "cuGetProcAddress_v2");
    void* function = nullptr;
    EXPECT_EQ(resolve("cuInit", &function, 12000, 0, nullptr), 0) << "the status is optional";
    EXPECT_NE(function, nullptr);
    EXPECT_EQ(resolve("cuInit", nullptr, 12000, 0, nullptr), 1);
    auto* old = symbol<ResolveV1>("libcuda.so.1", "cuGetProcAddress");
    EXPECT_EQ(old("cuNoSuch", &function, 11030, 0), 500) << "the first form has no status";
    EXPECT_EQ(function, nullptr);
    EXPECT_EQ(old("cuInit", &function, 11030, 0), 0);
  });
}

TEST(FakeResolver, WorksBeforeInit) {
  const Machine machine("1x16GiB");
  machine.client([] {
    EXPECT_EQ(ask("cuGetProcAddress", 12000, 0).function,
              find_symbol("libcuda.so.1", "cuGetProcAddress_v2"));
    EXPECT_EQ(ask("cuGetProcAddress", 11030, 0).function,
              find_symbol("libcuda.so.1", "cuGetProcAddress"));
    client::Calls calls;
    const char* why = "";
    ASSERT_TRUE(client::load(client::Road::dlsym_handle, &calls, &why));
    client::Pointer pointer = 0;
    EXPECT_EQ(calls.cuMemAlloc_v2(&pointer, 1), 3);
    std::size_t free_bytes = 0;
    EXPECT_EQ(calls.cuMemGetInfo_v2(&free_bytes, &free_bytes), 3);
    int version = 0;
    EXPECT_EQ(calls.cuDriverGetVersion(&version), 0);
    EXPECT_EQ(version, 12020);
  });
}

TEST(FakeResolver, TheLibraryOfALineExportsWhatThatDriverHas) {
  const Machine machine("1x16GiB", {"--driver", "495"});
  machine.client(
      [] {
        EXPECT_EQ(find_symbol("libcuda.so.1", "cuGetProcAddress_v2"), nullptr);
        EXPECT_NE(find_symbol("libcuda.so.1", "cuGetProcAddress"), nullptr);
        EXPECT_EQ(find_symbol("libcuda.so.1", "cuLibraryLoadData"), nullptr);
        EXPECT_EQ(find_symbol("libnvidia-ml.so.1", "nvmlDeviceSetMemoryLimits_v1"), nullptr);
        client::Session session = open_session();
        EXPECT_EQ(take(session, *client::family_named("async"), kMiB), 0);
      },
      "495");
  machine.client([] {
    for (const Row& row : rows()) {
      if (row.version >= 14000) continue;  // of the future
      EXPECT_NE(find_symbol("libcuda.so.1", row.symbol.c_str()), nullptr) << row.symbol;
    }
  });
}

// A driver that nobody has seen: a known name has a form that no table knows; there are new names.
TEST(FakeResolver, TheFutureHasNamesAndFormsThatNobodyKnows) {
  const Machine machine("1x16GiB", {"--driver", "future"});
  machine.client(
      [] {
        void* known = find_symbol("libcuda.so.1", "cuMemAlloc_v2");
        EXPECT_EQ(ask("cuMemAlloc", 13000, 0).function, known);
        const Answer later = ask("cuMemAlloc", 15000, 0);
        EXPECT_EQ(later.status, 0);
        EXPECT_NE(later.function, known);
        client::Session session = open_session();
        client::Pointer pointer = 0;
        auto* allocate =
            reinterpret_cast<int (*)(std::size_t, unsigned int, client::Pointer*)>(later.function);
        const std::size_t before = free_memory(session);
        EXPECT_EQ(allocate(kMiB, 0, &pointer), 0);
        EXPECT_EQ(before - free_memory(session), kMiB);
        EXPECT_EQ(ask("cuMemAllocTomorrow", 15000, 0).status, 0);
        EXPECT_EQ(ask("cuMemAllocTomorrow", 13000, 0).status, 2);
      },
      "future");
}

// The 440 requests that the CUDA runtime begins with, answered as the list of entry points says.
TEST(FakeResolver, AnswersWhatTheRuntimeAsksFor) {
  const Machine machine("1x16GiB", {"--driver", "580"});
  machine.client([] {
    const std::vector<Row> all = rows();
    std::ifstream file(std::string(BERTH_SOURCE_DIR) + "/tests/clients/cudart-13.0-requests.txt");
    std::string line;
    int asked = 0;
    while (std::getline(file, line)) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream words(line);
      std::string name;
      int version = 0;
      unsigned long long flags = 0;
      words >> name >> version >> flags;
      if (name == "-") name.clear();
      const std::string wanted = expected(all, name, version, flags == 2, 13000);
      const Answer answer = ask(name.c_str(), version, flags);
      EXPECT_EQ(answer.code, 0);
      EXPECT_EQ(answer.function,
                wanted.empty() ? nullptr : find_symbol("libcuda.so.1", wanted.c_str()))
          << line;
      EXPECT_EQ(answer.status, name.empty() ? 1 : 0) << line;
      ++asked;
    }
    EXPECT_EQ(asked, 440);
  });
}

TEST(FakeResolver, WritesDownWhatWasAskedFor) {
  const Machine machine("1x16GiB");
  EXPECT_EQ(machine.tool({"set", "log=on"}).exit, 0);
  machine.client([] {
    (void)ask("", 0, 0);
    (void)ask("cuMemAlloc", 3020, 2);
  });
  EXPECT_EQ(machine.tool({"log"}).out, " 0 0 1\ncuMemAlloc 3020 2 0\n");
}

// What nobody implements refuses and is counted, so that a test can see what a program needed.
TEST(FakeResolver, CountsWhatItRefuses) {
  const Machine machine("1x16GiB");
  machine.client([] {
    client::Session session = open_session();
    EXPECT_EQ(symbol<int(int)>("libcuda.so.1", "cuCheckpointProcessLock")(1), 801);
  });
  EXPECT_EQ(dump_of(machine)["refused"]["cuCheckpointProcessLock"], 1);
}

}  // namespace
}  // namespace berth::fake::checks
