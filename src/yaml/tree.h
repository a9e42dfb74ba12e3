// YAML text -> a plain tree with the line and column of everything in it.
//
//   TRY(std::vector<yaml::Node> documents, yaml::parse(text, "fleet.yaml"));
//   for (const yaml::Entry& entry : documents.front().entries) { … entry.key, entry.value.line … }
//
// This is the only room that knows yaml-cpp. It accepts the part of YAML that people write by hand
// and refuses, with "file:line:column: what; what to do", all that makes a file mean something
// other than what it shows: anchors, aliases and merge keys, tags, keys that are not words, keys
// given twice, NUL bytes, bytes that are not UTF-8, and anything beyond the limits below. CRLF line
// ends, a byte order mark and a missing last newline are read as if they were not there.
// Thread-safety: functions are pure, values are values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace berth::yaml {

enum class NodeKind : std::uint8_t {
  null,    // nothing was written, or a plain `~` or `null`
  scalar,  // `text`; the reader decides whether it is a number, a size, a name
  list,
  map,
};

struct Entry;

struct Node {
  NodeKind kind = NodeKind::null;
  std::string text;     // scalar
  bool quoted = false;  // scalar: written in quotes or as a block
  int line = 1;         // where it begins, from 1
  int column = 1;
  std::vector<Node> items;     // list
  std::vector<Entry> entries;  // map, in the order written

  bool is_null() const { return kind == NodeKind::null; }

  bool is_scalar() const { return kind == NodeKind::scalar; }

  bool is_list() const { return kind == NodeKind::list; }

  bool is_map() const { return kind == NodeKind::map; }

  // The value under a key, or nullptr. Requires nothing; not a map: nullptr.
  const Node* find(std::string_view key) const;
};

struct Entry {
  std::string key;
  int line = 1;  // of the key
  int column = 1;
  Node value;
};

// "scalar", "list", "map", "nothing": how a message names a kind.
std::string_view kind_name(NodeKind kind);

struct Limits {
  std::size_t max_bytes = 16U << 20U;
  std::size_t max_line_bytes = 64U << 10U;
  std::size_t max_depth = 32;  // of lists and maps inside each other
  std::size_t max_nodes = 1'000'000;
};

// Every document of the text ("---" separates them); a text without any gives an empty list.
// Errors: invalid_argument, message "FILE:LINE:COLUMN: …".
Result<std::vector<Node>> parse(std::string_view text, std::string_view file_name,
                                const Limits& limits = {});

// The error of a place in a file: "FILE:LINE:COLUMN: message".
Error error_at(std::string_view file_name, int line, int column, std::string_view message);

}  // namespace berth::yaml
