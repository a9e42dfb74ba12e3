#include <fcntl.h>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

#include "cli/commands.h"
#include "cli/program.h"

namespace {

// A caller may start us with standard streams closed. The next file we open would then take their
// place and be written to as if it were the terminal. What is opened here cannot be written to, so
// that writing to a closed stream still fails.
void keep_standard_streams_apart() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) == -1) {
      (void)open("/dev/null", O_RDONLY);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_streams_apart();
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> words = berth::cli::words_for(
      argc > 0 ? argv[0] : "", std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
      berth::cli::all_commands());
  berth::cli::Console console{.out = std::cout,
                              .err = std::cerr,
                              .err_is_terminal = isatty(STDERR_FILENO) == 1,
                              .out_is_terminal = isatty(STDOUT_FILENO) == 1};
  return static_cast<int>(berth::cli::run_program(berth::cli::all_commands(), words, console));
}
