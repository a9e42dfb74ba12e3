#include "scenario/request_words.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "config/value.h"
#include "request/words.h"

namespace berth::scenario {

using config::Place;

namespace {

// Turns YAML into words and remembers where each came from.
class WordMaker {
 public:
  request::Word make(std::string key, const yaml::Node& node, Place place) {
    const std::size_t position = places_.size();
    places_.push_back(place);
    std::vector<request::Word> items;
    for (const yaml::Node& item : node.items) {
      items.push_back(make("", item, {item.line, item.column}));
    }
    for (const yaml::Entry& entry : node.entries) {
      items.push_back(make(entry.key, entry.value, {entry.value.line, entry.value.column}));
    }
    if (node.is_list()) return request::Word::list(std::move(key), std::move(items), position);
    if (node.is_map()) return request::Word::map(std::move(key), std::move(items), position);
    return request::Word::text(std::move(key), node.text, position);
  }

  Place place(std::size_t position) const {
    return position < places_.size() ? places_[position] : Place{};
  }

 private:
  std::vector<Place> places_;
};

}  // namespace

std::vector<std::string_view> request_keys() {
  std::vector<std::string_view> keys;
  for (const request::WordRule& rule : request::word_rules()) {
    if (rule.scope != request::WordScope::container) keys.push_back(rule.name);
  }
  return keys;
}

Result<core::Request> request_from_entries(std::span<const yaml::Entry* const> entries,
                                           std::string_view file) {
  WordMaker maker;
  std::vector<request::Word> words;
  for (const yaml::Entry* entry : entries) {
    words.push_back(maker.make(entry->key, entry->value, {entry->value.line, entry->value.column}));
  }
  request::WordsOutcome outcome = request::read_words(words);
  if (outcome.ok()) return *std::move(outcome.request);
  std::string message;
  for (const request::Finding& finding : outcome.errors) {
    const Place place = maker.place(finding.position);
    message += fmt::format("{}{}:{}:{}: {}", message.empty() ? "" : "\n", file, place.line,
                           place.column, finding.text());
  }
  return invalid_argument(std::move(message));
}

}  // namespace berth::scenario
