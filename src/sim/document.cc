#include "sim/document.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/assert.h"

namespace berth::sim {

namespace {

void indent(std::string& out, int depth) { out.append(2 * static_cast<std::size_t>(depth), ' '); }

// Keys of ours are plain words; one that looks like a number must stay a text in YAML.
std::string yaml_key(const std::string& key) {
  const bool plain = !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
  });
  return plain ? key : json_string(key);
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

Document Document::fixed(double number, int decimals) {
  Document made(Kind::literal);
  made.text_ = fmt::format("{:.{}f}", number, decimals);
  // "-0.000" would be a different text for the same figure.
  if (made.text_.find_first_not_of("-0.") == std::string::npos && made.text_.starts_with('-')) {
    made.text_.erase(0, 1);
  }
  return made;
}

Document Document::fixed(const std::optional<double>& number, int decimals) {
  return number ? fixed(*number, decimals) : Document();
}

Document& Document::add(std::string key, Document value) {
  ASSERT(kind_ == Kind::object);
  keys_.push_back(std::move(key));
  children_.push_back(std::move(value));
  return *this;
}

Document& Document::push(Document value) {
  ASSERT(kind_ == Kind::array);
  children_.push_back(std::move(value));
  return *this;
}

bool Document::is_flat() const {
  return std::ranges::all_of(children_, [](const Document& child) { return child.is_scalar(); });
}

std::string Document::scalar() const {
  if (kind_ == Kind::null) return "null";
  return kind_ == Kind::text ? json_string(text_) : text_;
}

void Document::write_flow(std::string& out) const {
  const bool object = kind_ == Kind::object;
  out += object ? '{' : '[';
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (i > 0) out += ", ";
    if (object) out += json_string(keys_[i]) + ": ";
    out += children_[i].scalar();
  }
  out += object ? '}' : ']';
}

void Document::write_json_children(std::string& out, int depth) const {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    indent(out, depth + 1);
    if (kind_ == Kind::object) out += json_string(keys_[i]) + ": ";
    children_[i].write_json(out, depth + 1);
    out += i + 1 < children_.size() ? ",\n" : "\n";
  }
}

void Document::write_json(std::string& out, int depth) const {
  if (is_scalar()) {
    out += scalar();
  } else if (depth > 0 && is_flat()) {
    write_flow(out);
  } else {
    out += kind_ == Kind::object ? "{\n" : "[\n";
    write_json_children(out, depth);
    indent(out, depth);
    out += kind_ == Kind::object ? '}' : ']';
  }
}

void Document::write_yaml(std::string& out, int depth) const {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const Document& child = children_[i];
    // The first line of a list's element stands behind its dash, which the caller has written.
    if (i > 0 || kind_ == Kind::array || depth == 0) indent(out, depth);
    out += kind_ == Kind::object ? yaml_key(keys_[i]) + ":" : "-";
    if (child.is_scalar()) {
      out += " " + child.scalar() + "\n";
    } else if (child.is_flat()) {
      out += " ";
      child.write_flow(out);
      out += "\n";
    } else if (kind_ == Kind::array) {
      out += " ";
      child.write_yaml(out, depth + 1);
    } else {
      out += "\n";
      if (child.kind_ == Kind::object) indent(out, depth + 1);
      child.write_yaml(out, depth + 1);
    }
  }
}

std::string Document::json() const {
  std::string out;
  write_json(out, 0);
  return out + "\n";
}

std::string Document::yaml() const {
  std::string out;
  if (is_scalar()) return scalar() + "\n";
  write_yaml(out, 0);
  return out;
}

}  // namespace berth::sim
