// guard_client VERB [WORD]...: programs that use a GPU, for the tests of the guard. Each says on
// standard output what it saw; exit code 0: it ran, 1: something was not as it must be, 2: usage.
#include <cstdio>
#include <cstring>

#include "verbs.h"

int main(int argc, char** argv) {
  using namespace berth::guard_test;  // NOLINT(google-build-using-namespace): its verbs
  struct Verb {
    const char* name;
    int (*run)(int argc, char** argv);
  };
  static const Verb kVerbs[] = {
      {"race", run_race},   {"random", run_random}, {"hold", run_hold},
      {"storm", run_storm}, {"short", run_short},   {"bench", run_bench},
      {"abi", run_abi},     {"view", run_view},     {"lifetime", run_lifetime},
      {"share", run_share}, {"past", run_past},     {"forbidden", run_forbidden}};
  setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const Verb& verb : kVerbs) {
    if (argc > 1 && std::strcmp(argv[1], verb.name) == 0) return verb.run(argc - 2, argv + 2);
  }
  std::fprintf(stderr, "guard_client: no such verb\n");
  return 2;
}
