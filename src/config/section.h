// Sections: the one place where a key of a file that people write is written down.
//
// A Section<T> is a table of keys; each row has what the reference says of the key and the function
// that reads its value into a T. read_section() obeys the table and nothing else: a key that is not
// in it is refused with the nearest that is, and the reference (docs/scenarios.md, docs/queues.md)
// is printed from the same rows.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "config/value.h"

namespace berth::config {

struct KeyDoc {
  std::string_view name;
  std::string_view type;
  std::string_view summary;
  std::string_view example;  // a value that the key accepts, in YAML
  bool required = false;
};

template <typename T>
struct Key {
  KeyDoc doc;
  Result<void> (*read)(const Value& value, T& into);
};

template <typename T>
struct Section {
  std::string_view name;
  std::string_view summary;
  std::span<const Key<T>> keys;
  // Keys that another table knows (the words of a request): their names, and who takes them.
  std::vector<std::string_view> (*other_keys)() = nullptr;
  void (*take_other)(const yaml::Entry& entry, T& into) = nullptr;
};

// A section without its readers.
struct SectionDoc {
  std::string_view name;
  std::string_view summary;
  std::vector<KeyDoc> keys;
};

template <typename T>
SectionDoc section_doc(const Section<T>& section) {
  SectionDoc doc{section.name, section.summary, {}};
  for (const Key<T>& key : section.keys)
    doc.keys.push_back(key.doc);
  return doc;
}

// Markdown: the table of a section, below a heading of its name.
std::string section_table(const SectionDoc& doc);

Error not_a_section(std::string_view section, const Value& value);
Error missing_key(const KeyDoc& key, const Value& value);
Error unknown_key(std::string_view section, const yaml::Entry& entry, std::string_view file,
                  std::span<const std::string_view> known);

// Reads one key of a map.
template <typename T>
Result<void> read_key(const Section<T>& section, const yaml::Entry& entry, const Value& value,
                      T& into) {
  for (const Key<T>& key : section.keys) {
    if (key.doc.name == entry.key) return key.read(value.inner(entry.value, entry.key), into);
  }
  std::vector<std::string_view> known;
  if (section.other_keys != nullptr) known = section.other_keys();
  if (section.take_other != nullptr && std::ranges::find(known, entry.key) != known.end()) {
    section.take_other(entry, into);
    return success();
  }
  for (const Key<T>& key : section.keys)
    known.push_back(key.doc.name);
  return unknown_key(section.name, entry, value.file(), known);
}

// Reads every key of a map, in the order written; all that is wrong, not just the first.
template <typename T>
std::vector<Error> read_whole_section(const Section<T>& section, const Value& value, T& into) {
  if (!value.node().is_map()) return {not_a_section(section.name, value)};
  std::vector<Error> errors;
  for (const yaml::Entry& entry : value.node().entries) {
    if (auto read = read_key(section, entry, value, into); !read.ok()) {
      errors.push_back(std::move(read).error());
    }
  }
  for (const Key<T>& key : section.keys) {
    if (key.doc.required && value.node().find(key.doc.name) == nullptr) {
      errors.push_back(missing_key(key.doc, value));
    }
  }
  return errors;
}

// The same, for those who stop at the first error.
template <typename T>
Result<void> read_section(const Section<T>& section, const Value& value, T& into) {
  if (!value.node().is_map()) return not_a_section(section.name, value);
  for (const yaml::Entry& entry : value.node().entries) {
    TRY_VOID(read_key(section, entry, value, into));
  }
  for (const Key<T>& key : section.keys) {
    if (key.doc.required && value.node().find(key.doc.name) == nullptr) {
      return missing_key(key.doc, value);
    }
  }
  return success();
}

}  // namespace berth::config
