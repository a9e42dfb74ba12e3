// Started by the daemon for each job; see src/local/supervisor.h. People have no use for it.
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <string_view>

#include "local/supervisor.h"

int main(int argc, char** argv) {
  constexpr int kReport = 3;
  const std::string_view mode = argc == 3 ? argv[1] : "";
  if ((mode != "start" && mode != "adopt") || fcntl(kReport, F_GETFD) == -1) {
    std::fputs(
        "berth-supervise: berth serve starts this program for each job; use `berth submit`\n",
        stderr);
    return 2;
  }
  using berth::local::SuperviseMode;
  return berth::local::supervise(
      argv[2], mode == "start" ? SuperviseMode::start : SuperviseMode::adopt, kReport);
}
