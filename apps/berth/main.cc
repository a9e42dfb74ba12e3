#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <string_view>
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
  // On a dumb terminal nothing can be drawn over: what is said there is said line by line.
  const char* kind = std::getenv("TERM");
  const bool dumb = kind != nullptr && std::string_view(kind) == "dumb";
  berth::cli::Console console{.out = std::cout,
                              .err = std::cerr,
                              .err_is_terminal = !dumb && isatty(STDERR_FILENO) == 1,
                              .out_is_terminal = !dumb && isatty(STDOUT_FILENO) == 1};
  return static_cast<int>(berth::cli::run_program(berth::cli::all_commands(), words, console));
}
