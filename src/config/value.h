// Value: one value of a file that people write, knowing its key and place, and the readers of every
// type.
//
//   TRY(Memory memory, value.memory());   // error: "f.yaml:7:13: memory '5Gb': …; write …"
//
// How each type is written is said once, in kTypes, from which the reference is generated.
// Thread-safety: views into a parsed tree that must outlive them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "yaml/tree.h"

namespace berth::config {

struct Place {
  int line = 1;
  int column = 1;
};

// One kind of value, for the reference.
struct TypeDoc {
  std::string_view name;
  std::string_view how;  // how it is written
  std::string_view example;
};

std::span<const TypeDoc> all_types();
// Markdown: the table of them, below a heading; of all, or of those with these names.
std::string types_table(std::span<const std::string_view> names = {});
// The text as a cell of a Markdown table.
std::string table_cell(std::string_view text);

// A name with its place, for messages that come later.
struct Named {
  std::string text;
  Place place;
};

class Value {
 public:
  Value(const yaml::Node& node, std::string_view field, std::string_view file)
      : node_(&node), field_(field), file_(file) {}

  const yaml::Node& node() const { return *node_; }

  std::string_view field() const { return field_; }

  std::string_view file() const { return file_; }

  Place place() const { return {node_->line, node_->column}; }

  Value inner(const yaml::Node& node, std::string_view field) const { return {node, field, file_}; }

  // "FILE:LINE:COLUMN: FIELD 'VALUE': RULE".
  Error error(std::string_view rule) const;

  // Each accepts exactly what kTypes says of it.
  Result<std::string> word() const;  // any text that is not empty
  Result<bool> truth() const;        // yes | no
  Result<std::int64_t> number(std::int64_t least, std::int64_t most) const;
  Result<Memory> memory() const;             // 16GiB
  Result<Duration> duration() const;         // 30s
  Result<Milli> cores() const;               // 4, 500m
  Result<std::vector<Value>> items() const;  // a list, or one value standing for a list of one
  Result<std::vector<Named>> names() const;  // the same, words; "job-1..3" is three names
  Result<std::vector<std::pair<Named, Value>>> entries() const;  // a map with free keys

  // One of a few words. Errors name the nearest.
  template <typename T>
  Result<T> choice(std::span<const std::pair<std::string_view, T>> known) const {
    TRY(std::string text, word());
    std::vector<std::string_view> words;
    for (const auto& [name, meaning] : known) {
      if (name == text) return meaning;
      words.push_back(name);
    }
    return unknown_word(words);
  }

 private:
  Error unknown_word(std::span<const std::string_view> known) const;

  const yaml::Node* node_;
  std::string_view field_;
  std::string_view file_;
};

// ", did you mean 'x'?" with the nearest of them, then the list of all; for messages.
std::string suggestion(std::string_view typed, std::span<const std::string_view> known);

// "job-1..3" -> job-1, job-2, job-3; anything else is one name. Errors: backwards or huge ranges.
Result<std::vector<std::string>> expand_names(std::string_view text);
inline constexpr std::int64_t kMaxRange = 100'000;

// Digits only, value within [0, most].
Result<std::int64_t> parse_count(std::string_view text, std::int64_t most);
// "30s", "500ms", "5min", "2h", "1d".
Result<Duration> parse_duration(std::string_view text);
// "16GiB"; "100MiB"; the unit is required. Only whole MiB or bytes that make whole MiB.
Result<Memory> parse_memory(std::string_view text);

}  // namespace berth::config
