#include "json/dom.h"

#include <algorithm>
#include <cstring>
#include <simdjson.h>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

namespace berth::json {

static_assert(kDomPadding >= simdjson::SIMDJSON_PADDING);

namespace {

using simdjson::internal::tape_ref;
using simdjson::internal::tape_type;

tape_ref tape(const void* document, std::size_t index) {
  return {static_cast<const simdjson::dom::document*>(document), index};
}

// simdjson lets nobody else make an element of a place on its tape.
simdjson::dom::element element_at(const void* document, std::size_t index) {
  static_assert(sizeof(simdjson::dom::element) == sizeof(tape_ref));
  static_assert(std::is_trivially_copyable_v<simdjson::dom::element>);
  simdjson::dom::element element;
  const tape_ref place = tape(document, index);
  std::memcpy(static_cast<void*>(&element), &place, sizeof(element));
  return element;
}

bool opens(tape_type type) {
  return type == tape_type::START_ARRAY || type == tape_type::START_OBJECT;
}

}  // namespace

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::absent: return "absent";
    case Kind::null: return "null";
    case Kind::flag: return "true or false";
    case Kind::integer:
    case Kind::number: return "a number";
    case Kind::text: return "a string";
    case Kind::list: return "a list";
    case Kind::object: return "an object";
  }
  return "";
}

Kind Element::kind_on_tape() const {
  switch (tape(document_, index_).tape_ref_type()) {
    case tape_type::START_ARRAY: return Kind::list;
    case tape_type::START_OBJECT: return Kind::object;
    case tape_type::STRING: return Kind::text;
    case tape_type::INT64: return Kind::integer;
    case tape_type::UINT64:
    case tape_type::DOUBLE: return Kind::number;
    case tape_type::TRUE_VALUE:
    case tape_type::FALSE_VALUE: return Kind::flag;
    default: return Kind::null;
  }
}

// The hottest loop of whoever reads objects: over the tape, without the ranges.
Element Element::find_on_tape(std::string_view name) const {
  tape_ref at = tape(document_, index_);
  if (at.tape_ref_type() != tape_type::START_OBJECT) {
    return {};
  }
  const std::size_t end = at.after_element() - 1;
  at.json_index = index_ + 1;
  while (at.json_index != end) {
    const bool same = at.get_string_length() == name.size() &&
                      std::memcmp(at.get_c_str(), name.data(), name.size()) == 0;
    ++at.json_index;
    if (same) {
      return {document_, at.json_index};
    }
    at.json_index = at.after_element();
  }
  return {};
}

std::optional<std::string_view> Element::as_text() const {
  if (document_ == nullptr) {
    return std::nullopt;
  }
  const tape_ref place = tape(document_, index_);
  if (place.tape_ref_type() != tape_type::STRING) {
    return std::nullopt;
  }
  return place.get_string_view();
}

std::optional<std::int64_t> Element::as_integer() const {
  if (kind() != Kind::integer) {
    return std::nullopt;
  }
  return tape(document_, index_).next_tape_value<std::int64_t>();
}

std::optional<bool> Element::as_flag() const {
  if (kind() != Kind::flag) {
    return std::nullopt;
  }
  return tape(document_, index_).tape_ref_type() == tape_type::TRUE_VALUE;
}

std::size_t Element::after() const { return tape(document_, index_).after_element(); }

Element::Items Element::items() const {
  Items range;
  if (kind() == Kind::list) {
    range.begin_ = Element(document_, index_ + 1);
    range.end_ = Element(document_, after() - 1);
  }
  return range;
}

Element::Members Element::members() const {
  Members range;
  if (kind() == Kind::object) {
    range.begin_ = Element(document_, index_ + 1);
    range.end_ = Element(document_, after() - 1);
  }
  return range;
}

DomMember Element::Members::Iterator::operator*() const {
  return {.name = tape(at_.document_, at_.index_).get_string_view(),
          .value = Element(at_.document_, at_.index_ + 1)};
}

std::size_t Element::size() const {
  if (document_ == nullptr || !opens(tape(document_, index_).tape_ref_type())) {
    return 0;
  }
  std::size_t count = 0;  // simdjson's own count saturates at 2^24
  for ([[maybe_unused]] const Element item : items()) {
    ++count;
  }
  for ([[maybe_unused]] const DomMember member : members()) {
    ++count;
  }
  return count;
}

std::string Element::raw() const {
  if (document_ == nullptr) {
    return {};
  }
  return simdjson::minify(element_at(document_, index_));
}

struct DomParser::Impl {
  simdjson::dom::parser parser;
  std::vector<char> copy;
};

DomParser::DomParser() : impl_(std::make_unique<Impl>()) {}
DomParser::~DomParser() = default;
DomParser::DomParser(DomParser&&) noexcept = default;
DomParser& DomParser::operator=(DomParser&&) noexcept = default;

Result<Element> DomParser::parse(std::string_view text) {
  std::vector<char>& copy = impl_->copy;
  if (copy.size() < text.size() + kDomPadding) {
    copy.resize(text.size() + kDomPadding);
  }
  std::ranges::copy(text, copy.begin());
  return parse_padded({copy.data(), text.size()});
}

Result<Element> DomParser::parse_padded(std::string_view text) {
  simdjson::dom::element root;
  if (const auto error = impl_->parser.parse(text.data(), text.size(), false).get(root)) {
    return invalid_argument(fmt::format("not JSON: {}", simdjson::error_message(error)));
  }
  return Element(&impl_->parser.doc, 1);
}

void DomParser::trim(std::size_t bytes) {
  if (impl_->parser.capacity() > bytes || impl_->copy.capacity() > bytes + kDomPadding) {
    impl_ = std::make_unique<Impl>();
  }
}

}  // namespace berth::json
