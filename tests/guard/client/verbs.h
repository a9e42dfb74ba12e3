// The verbs of guard_client; each file of this folder says what its verbs do.
#pragma once

#include "guard/probe/cuda.h"

namespace berth::guard_test {

using namespace guard_probe;  // NOLINT(google-build-using-namespace): the driver's table

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

}  // namespace berth::guard_test
