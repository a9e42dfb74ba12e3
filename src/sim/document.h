// Document: a tree of values that can be written as JSON or as YAML, in the order it was built.
//
//   Document run = Document::object();
//   run.add("policy", "pack").add("at130", Document::fixed(95.11, 3));   // 95.110
//
// Figures keep the number of decimals that was asked for, so that the text is the same on every
// machine and two outputs can be compared with diff.
// Thread-safety: a value.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::sim {

class Document {
 public:
  Document() = default;  // null

  Document(bool flag) : kind_(Kind::literal), text_(flag ? "true" : "false") {}  // NOLINT: implicit

  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Document(T number) : kind_(Kind::literal), text_(std::to_string(number)) {}  // NOLINT: implicit

  Document(std::string text) : kind_(Kind::text), text_(std::move(text)) {}  // NOLINT: implicit

  Document(std::string_view text) : Document(std::string(text)) {}  // NOLINT: implicit

  Document(const char* text) : Document(std::string(text)) {}  // NOLINT: implicit

  // A number with exactly so many decimals. Requires a finite number.
  static Document fixed(double number, int decimals);
  static Document fixed(const std::optional<double>& number, int decimals);

  static Document object() { return Document(Kind::object); }

  static Document array() { return Document(Kind::array); }

  Document& add(std::string key, Document value);  // to an object
  Document& push(Document value);                  // to an array

  std::string json() const;  // indented, a line break at the end
  std::string yaml() const;

 private:
  enum class Kind : std::uint8_t { null, literal, text, object, array };

  explicit Document(Kind kind) : kind_(kind) {}

  bool is_scalar() const { return kind_ != Kind::object && kind_ != Kind::array; }

  bool is_flat() const;  // holds scalars only: written on one line
  std::string scalar() const;
  void write_json(std::string& out, int depth) const;
  void write_json_children(std::string& out, int depth) const;
  void write_flow(std::string& out) const;
  void write_yaml(std::string& out, int depth) const;

  Kind kind_ = Kind::null;
  std::string text_;
  std::vector<std::string> keys_;  // objects only
  std::vector<Document> children_;
};

// A JSON string literal, which is also a YAML one. Requires valid UTF-8.
std::string json_string(std::string_view text);

}  // namespace berth::sim
