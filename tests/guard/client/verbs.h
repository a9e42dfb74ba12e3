// The verbs of guard_client; each file of this folder says what its verbs do.
#pragma once

#include <dlfcn.h>

#include "guard/probe/cuda.h"

namespace berth::guard_test {

using namespace guard_probe;  // NOLINT(google-build-using-namespace): the driver's table

// A function of the driver that the probe's table lacks, as a program finds it; 500: there is none.
template <typename... Arguments>
int call_driver(const char* name, Arguments... arguments) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  return function != nullptr ? function(arguments...) : 500;
}

int run_race(int argc, char** argv);
int run_random(int argc, char** argv);
int run_hold(int argc, char** argv);
int run_storm(int argc, char** argv);
int run_short(int argc, char** argv);
int run_bench(int argc, char** argv);
int run_abi(int argc, char** argv);
int run_view(int argc, char** argv);
int run_lifetime(int argc, char** argv);
int run_share(int argc, char** argv);
int run_past(int argc, char** argv);
int run_forbidden(int argc, char** argv);

}  // namespace berth::guard_test
