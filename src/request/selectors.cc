// The small languages inside words: lists, label selectors, tolerations.
#include <algorithm>
#include <array>

#include "request/units.h"
#include "request/word_draft.h"

namespace berth::request {

namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(trim(text.substr(0, end)));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

// Label and taint keys and values: nothing that the languages here use as a sign.
bool is_plain(std::string_view text) {
  return text.find_first_of(" \t(),=!<>:") == std::string_view::npos;
}

std::unexpected<Complaint> bad_value(std::string rule) {
  return std::unexpected(Complaint{ReasonCode::bad_value, std::move(rule)});
}

std::unexpected<Complaint> bad_selector() {
  return bad_value("a selector: a=b, a!=b, a in (b, c), a notin (b), a, !a, a > 5 or a < 5");
}

// "in (b, c)" with the word already seen; `text` begins behind it.
Parsed<core::LabelRule> parse_set(core::LabelRule rule, std::string_view text) {
  text = trim(text);
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return bad_selector();
  rule.values = split(text.substr(1, text.size() - 2), ',');
  for (const std::string& value : rule.values) {
    if (!is_plain(value)) return bad_selector();
  }
  return rule;
}

struct Sign {
  std::string_view text;
  core::LabelRule::Op op;
};

// Longer signs first: "!=" holds a "=".
constexpr std::array<Sign, 5> kSigns{{{"!=", core::LabelRule::Op::not_in},
                                      {"==", core::LabelRule::Op::in},
                                      {"=", core::LabelRule::Op::in},
                                      {">", core::LabelRule::Op::greater},
                                      {"<", core::LabelRule::Op::less}}};

}  // namespace

Parsed<std::vector<std::string>> texts_of(const Word& word) {
  std::vector<std::string> texts;
  switch (word.shape) {
    case Word::Shape::text: texts = split(word.value, ','); break;
    case Word::Shape::list:
      for (const Word& item : word.items) {
        if (item.shape != Word::Shape::text) return bad_value("a list of texts");
        texts.push_back(item.value);
      }
      break;
    case Word::Shape::map: return bad_value("a list of texts, not a map");
  }
  if (std::find(texts.begin(), texts.end(), "") != texts.end()) {
    return bad_value("a list of texts, none of them empty; to restrict nothing leave the key out");
  }
  return texts;
}

Parsed<core::LabelRule> parse_label_rule(std::string_view text) {
  text = trim(text);
  core::LabelRule rule;
  if (text.starts_with('!')) {
    rule.op = core::LabelRule::Op::does_not_exist;
    rule.key = trim(text.substr(1));
    if (rule.key.empty() || !is_plain(rule.key)) return bad_selector();
    return rule;
  }
  const std::size_t end = std::min(text.find_first_of(" \t=!<>"), text.size());
  rule.key = text.substr(0, end);
  if (rule.key.empty() || !is_plain(rule.key)) return bad_selector();
  std::string_view rest = trim(text.substr(end));
  if (rest.empty()) {
    rule.op = core::LabelRule::Op::exists;
    return rule;
  }
  if (rest.starts_with("notin")) {
    rule.op = core::LabelRule::Op::not_in;
    return parse_set(std::move(rule), rest.substr(5));
  }
  if (rest.starts_with("in")) return parse_set(std::move(rule), rest.substr(2));
  for (const Sign& sign : kSigns) {
    if (!rest.starts_with(sign.text)) continue;
    rule.op = sign.op;
    const std::string_view value = trim(rest.substr(sign.text.size()));
    const bool compares =
        rule.op == core::LabelRule::Op::greater || rule.op == core::LabelRule::Op::less;
    if (!is_plain(value) || (compares && !is_digits(value))) return bad_selector();
    rule.values = {std::string(value)};
    return rule;
  }
  return bad_selector();
}

Parsed<core::Toleration> parse_toleration(std::string_view text) {
  const std::string expected =
      "key, key=value, key:Effect or key=value:Effect with effect NoSchedule, PreferNoSchedule or "
      "NoExecute; * tolerates every taint";
  text = trim(text);
  core::Toleration toleration;
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    toleration.effect = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (toleration.effect != "NoSchedule" && toleration.effect != "PreferNoSchedule" &&
        toleration.effect != "NoExecute") {
      return bad_value(expected);
    }
  }
  if (text == "*") {
    toleration.exists = true;
    return toleration;
  }
  const std::size_t equals = text.find('=');
  toleration.key = text.substr(0, equals);
  toleration.exists = equals == std::string_view::npos;
  if (!toleration.exists) toleration.value = text.substr(equals + 1);
  if (toleration.key.empty() || !is_plain(toleration.key) || !is_plain(toleration.value)) {
    return bad_value(expected);
  }
  return toleration;
}

}  // namespace berth::request
