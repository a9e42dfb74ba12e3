// DomParser and Element: JSON read in place, for those who read much and keep little.
//
//   DomParser parser;                               // one per stream, kept
//   TRY(Element root, parser.parse(frame));
//   for (Element container : root["object"]["spec"]["containers"].items()) {
//     use(container["name"].text());                // absent anything reads as its default
//   }
//
// Where `value.h` gives a tree to keep, this gives a view of simdjson's tape: nothing is allocated
// once the parser's buffers have grown, and a Kubernetes pod of 3 KiB is read in microseconds.
//
// Invariants: an Element and every text of it are valid until the parser's next parse, its move or
// its end; an absent Element stays absent under [], so chains need no checks. Of a name that stands
// twice in one object the first counts. Thread-safety: a parser and its elements belong to one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace berth::json {

// Bytes behind a text that must be readable, whatever they hold, so that it needs no copy.
inline constexpr std::size_t kDomPadding = 64;

enum class Kind : std::uint8_t { absent, null, flag, integer, number, text, list, object };

// "a list", "absent".
std::string_view kind_name(Kind kind);

struct DomMember;

class Element {
 public:
  class Items;
  class Members;

  Element() = default;  // absent

  Kind kind() const { return document_ == nullptr ? Kind::absent : kind_on_tape(); }

  // There, and not null: Kubernetes means the same by null and by absence.
  bool exists() const {
    const Kind k = kind();
    return k != Kind::absent && k != Kind::null;
  }

  bool is_text() const { return kind() == Kind::text; }
  bool is_list() const { return kind() == Kind::list; }
  bool is_object() const { return kind() == Kind::object; }

  // The member of an object; absent when there is none or this is no object.
  Element find(std::string_view name) const {
    return document_ == nullptr ? Element() : find_on_tape(name);
  }

  Element operator[](std::string_view name) const { return find(name); }

  // Empty unless it is what the name says. A whole number above 63 bits is no integer.
  std::optional<std::string_view> as_text() const;
  std::optional<std::int64_t> as_integer() const;
  std::optional<bool> as_flag() const;

  // For readers that are content with a default when it is absent or of another kind.
  std::string_view text(std::string_view otherwise = {}) const {
    return as_text().value_or(otherwise);
  }

  std::int64_t integer(std::int64_t otherwise = 0) const {
    return as_integer().value_or(otherwise);
  }

  bool flag(bool otherwise = false) const { return as_flag().value_or(otherwise); }

  // Empty when this is no list, no object.
  Items items() const;
  Members members() const;
  // Of a list or an object; else 0.
  std::size_t size() const;

  // The whole as text again, without blanks; "" when absent.
  std::string raw() const;

 private:
  friend class DomParser;
  Element(const void* document, std::size_t index) : document_(document), index_(index) {}

  Kind kind_on_tape() const;
  Element find_on_tape(std::string_view name) const;
  std::size_t after() const;

  const void* document_ = nullptr;
  std::size_t index_ = 0;  // on the tape
};

struct DomMember {
  std::string_view name;
  Element value;
};

// Ranges for a `for`; nothing else is promised.
class Element::Items {
 public:
  class Iterator {
   public:
    Element operator*() const { return at_; }
    Iterator& operator++() {
      at_.index_ = at_.after();
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_.index_ == other.at_.index_; }

   private:
    friend class Items;
    explicit Iterator(Element at) : at_(at) {}
    Element at_;
  };

  Iterator begin() const { return Iterator(begin_); }
  Iterator end() const { return Iterator(end_); }

 private:
  friend class Element;
  Element begin_;
  Element end_;
};

class Element::Members {
 public:
  class Iterator {
   public:
    DomMember operator*() const;
    Iterator& operator++() {
      at_.index_ = Element(at_.document_, at_.index_ + 1).after();
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_.index_ == other.at_.index_; }

   private:
    friend class Members;
    explicit Iterator(Element at) : at_(at) {}
    Element at_;  // the name
  };

  Iterator begin() const { return Iterator(begin_); }
  Iterator end() const { return Iterator(end_); }

 private:
  friend class Element;
  Element begin_;
  Element end_;
};

class DomParser {
 public:
  DomParser();
  ~DomParser();
  DomParser(DomParser&&) noexcept;
  DomParser& operator=(DomParser&&) noexcept;

  // One JSON document. The text is copied into a buffer of the parser. Errors: invalid_argument
  // that says what is wrong (syntax, not UTF-8, nested too deeply, more than 4 GiB).
  Result<Element> parse(std::string_view text);
  // The same without a copy. Requires: kDomPadding readable bytes behind the text.
  Result<Element> parse_padded(std::string_view text);

  // Gives the buffers back if they have grown for a text above `bytes`. Ends all elements.
  void trim(std::size_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::json
