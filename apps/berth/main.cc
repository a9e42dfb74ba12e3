#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

#include "cli/commands.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  berth::cli::Console console{
      .out = std::cout, .err = std::cerr, .err_is_terminal = isatty(STDERR_FILENO) == 1};
  return static_cast<int>(berth::cli::run_program(berth::cli::all_commands(), words, console));
}
