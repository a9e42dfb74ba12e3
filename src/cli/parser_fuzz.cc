// Any words, one a line, given to the real table of verbs: every input is answered, nothing throws.
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/assert.h"
#include "cli/commands.h"
#include "cli/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      words.push_back(word);
      word.clear();
    } else {
      word += static_cast<char>(data[i]);
    }
  }
  words.push_back(word);
  const berth::cli::Parsed parsed = berth::cli::parse(berth::cli::all_commands(), words);
  if (const auto* problem = std::get_if<berth::cli::UsageProblem>(&parsed)) {
    ASSERT(!problem->message.empty());
  }
  return 0;
}
