// Words: one request as scenario files and the command line say it.
//
//   std::vector<Word> words{Word::text("gpu_memory", "4GiB", line_7), Word::text("cpu", "4",
//   line_8)}; WordsOutcome outcome = read_words(words); if (!outcome.ok()) report(outcome.errors);
//   // each with the position of the word that is meant use(*outcome.request);
//
// A word has a key and a text, a list or a map; the caller turns its YAML nodes or flags into words
// and gives each a position (an index, a line) that comes back with every finding. All words are in
// one registered table, from which parsing, help and docs/scenarios.md follow. Sizes of
// `gpu_memory` and `ram` have the units of the lease API (leases.md 3.2).
//
// A request of several containers says them under `containers`, each with its own words. The words
// `annotations` and `limits` hold the words of a pod instead and go through pod.h.
// Thread-safety: values and functions of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model/request.h"
#include "request/pod.h"
#include "request/reason.h"

namespace berth::request {

struct Word {
  enum class Shape : std::uint8_t { text, list, map };

  std::string key = {};  // empty for an entry of a list
  Shape shape = Shape::text;
  std::string value = {};        // of a text
  std::vector<Word> items = {};  // of a list or a map
  std::size_t position = 0;

  static Word text(std::string key, std::string value, std::size_t position = 0);
  static Word list(std::string key, std::vector<Word> items, std::size_t position = 0);
  static Word map(std::string key, std::vector<Word> items, std::size_t position = 0);
};

struct WordsOutcome {
  std::optional<core::Request> request;  // set iff there are no errors
  std::vector<Finding> errors;           // all of them, in order of position, then key
  std::vector<Finding> warnings;

  bool ok() const { return request.has_value(); }
};

WordsOutcome read_words(std::span<const Word> words, const PodRules& rules = {});

// The same for callers that need no positions. Errors: invalid_argument, one line per finding.
Result<core::Request> request_from_words(std::span<const Word> words);

// Where a word may stand.
enum class WordScope : std::uint8_t {
  task,       // at the top only
  container,  // in an entry of `containers` only
  gpu,        // at the top, for the one container `main`, or in an entry of `containers`
};

struct WordRule {
  std::string_view name;
  WordScope scope = WordScope::task;
  std::string_view form;     // what to write: "size", "list of texts", …
  std::string_view example;  // as in a scenario file: "gpu_memory: 4GiB"
  std::string_view summary;  // one line
};

// Every word there is, in the order in which help shows them.
std::span<const WordRule> word_rules();
// Null if there is no such word.
const WordRule* find_word(std::string_view name);

}  // namespace berth::request
