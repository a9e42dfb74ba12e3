// What a store should hold, the plain way; and histories of commits to try it with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "store/store.h"

namespace berth::store {

class Model {
 public:
  void apply(std::span<const Record> records) {
    for (const Record& record : records) {
      const auto key = std::pair(record.kind, record.id);
      if (!record.body) {
        held_.erase(key);
      } else if (const auto found = held_.find(key); found != held_.end()) {
        found->second.second = *record.body;
      } else {
        held_.emplace(key, std::pair(++appearances_, *record.body));
      }
    }
  }

  // As load() gives them.
  std::vector<Record> records() const {
    std::map<std::int64_t, Record> ordered;
    for (const auto& [key, value] : held_) {
      ordered.emplace(value.first, Record{key.first, key.second, value.second});
    }
    std::vector<Record> records;
    records.reserve(ordered.size());
    for (auto& [place, record] : ordered) {
      records.push_back(std::move(record));
    }
    return records;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::string>> held_;
  std::int64_t appearances_ = 0;
};

using History = std::vector<std::vector<Record>>;

// Commits of one to four records over a dozen ids, a quarter of them erasures; every ninth commit
// has a record that fills more than a page. Every commit changes what the store holds.
inline History make_history(std::size_t commits, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random()) % limit;
  };
  History history;
  Model model;
  while (history.size() < commits) {
    std::vector<Record> records;
    for (std::uint32_t count = 1 + below(4); count > 0; --count) {
      Record record{below(3) == 0 ? "job" : "lease", fmt::format("id-{}", below(6)), std::nullopt};
      if (below(4) != 0) {
        const std::size_t size = history.size() % 9 == 8 ? 6'000 : 20 + below(120);
        record.body = fmt::format("{}:{}", history.size(), std::string(size, 'x'));
      }
      records.push_back(std::move(record));
    }
    Model next = model;
    next.apply(records);
    if (next.records() != model.records()) {
      model = std::move(next);
      history.push_back(std::move(records));
    }
  }
  return history;
}

// What is held after each number of commits: [0] is nothing.
inline std::vector<std::vector<Record>> states_of(const History& history) {
  std::vector<std::vector<Record>> states(1);
  Model model;
  for (const std::vector<Record>& records : history) {
    model.apply(records);
    states.push_back(model.records());
  }
  return states;
}

// Options under which a short history sweeps and moves its log many times.
inline StoreOptions brisk_options(const std::string& directory, FaultHook* faults = nullptr) {
  return {.directory = directory,
          .slack_rows = 4,
          .sweep_rows = 3,
          .checkpoint_pages = 6,
          .faults = faults};
}

}  // namespace berth::store
