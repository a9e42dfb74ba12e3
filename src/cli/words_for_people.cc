#include "cli/words_for_people.h"

#include <algorithm>
#include <ctime>
#include <ostream>
#include <set>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "config/value.h"

namespace berth::cli {

namespace {

// So many slips of the fingers still look like the word that was meant.
constexpr std::size_t kTypos = 3;

}  // namespace

std::string memory_text(std::int64_t mib) {
  return mib != 0 && mib % 1024 == 0 ? fmt::format("{}GiB", mib / 1024)
         : mib == 0                  ? std::string("0")
                                     : fmt::format("{}MiB", mib);
}

std::string rough_memory(std::int64_t mib) {
  if (mib < 1024) {
    return memory_text(mib);
  }
  // Tenths, cut: what is shown as free is there.
  const std::int64_t tenths = mib * 10 / 1024;
  return mib % 1024 == 0 ? fmt::format("{}GiB", tenths / 10)
                         : fmt::format("{}.{}GiB", tenths / 10, tenths % 10);
}

Result<Duration> time_given(std::string_view option, std::string_view text) {
  // In configuration files the unit is "min".
  Result<Duration> time =
      config::parse_duration(text.ends_with('m') ? std::string(text) + "in" : std::string(text));
  if (!time.ok()) {
    return invalid_argument(
        fmt::format("{} {}: write a time, a whole number with its unit: 500ms, 30s, 10m, 2h or 1d",
                    option, text.empty() ? "''" : shortened(printable(text), 80)));
  }
  return time;
}

std::string span_text(std::int64_t seconds) {
  seconds = std::max<std::int64_t>(seconds, 0);
  const std::int64_t minutes = seconds / 60;
  const std::int64_t hours = minutes / 60;
  if (minutes == 0) {
    return fmt::format("{}s", seconds);
  }
  if (minutes < 10) {
    return fmt::format("{}m{:02}s", minutes, seconds % 60);
  }
  if (hours == 0) {
    return fmt::format("{}m", minutes);
  }
  if (hours < 24) {
    return fmt::format("{}h{:02}m", hours, minutes % 60);
  }
  return fmt::format("{}d{}h", hours / 24, hours % 24);
}

std::optional<std::int64_t> seconds_since(std::string_view time) {
  std::tm parts{};
  if (time.size() < 20 ||
      strptime(std::string(time).c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) {
    return std::nullopt;
  }
  return std::time(nullptr) - timegm(&parts);
}

DeviceNames::DeviceNames(const json::Array& devices) {
  std::set<std::string_view> nodes;
  for (const json::Value& device : devices) {
    const std::string uuid(device.text("uuid"));
    nodes.insert(device.text("node"));
    names_[uuid] = {.node = std::string(device.text("node")),
                    .short_name = device.flag("mig")
                                      ? uuid.substr(0, 12)
                                      : fmt::format("GPU {}", device.integer("index"))};
  }
  one_node_ = nodes.size() <= 1;
}

std::string DeviceNames::name(std::string_view uuid) const {
  const auto found = names_.find(uuid);
  if (found == names_.end()) {
    return std::string(uuid);
  }
  return one_node_ ? found->second.short_name : found->second.node + "/" + found->second.short_name;
}

std::string DeviceNames::in_words(std::string_view sentence) const {
  std::string text(sentence);
  for (const auto& [uuid, name] : names_) {
    const std::string called = this->name(uuid);
    for (const std::string& written :
         {uuid + " of node " + name.node, name.node + "/" + uuid, uuid}) {
      for (std::size_t at = text.find(written); at != std::string::npos;
           at = text.find(written, at + called.size())) {
        text.replace(at, written.size(), called);
      }
    }
  }
  return text;
}

Result<std::string> device_meant(const json::Array& devices, std::string_view words) {
  std::vector<std::string> meant;
  std::vector<std::string> known;
  for (const json::Value& device : devices) {
    const std::string uuid(device.text("uuid"));
    const std::string index = std::to_string(device.integer("index"));
    if (uuid == words) {
      return uuid;
    }
    const bool by_index =
        !device.flag("mig") &&
        (words == index || words == fmt::format("{}/{}", device.text("node"), index));
    if (by_index || (words.size() >= 8 && uuid.starts_with(words))) {
      meant.push_back(uuid);
    }
    known.push_back(uuid);
  }
  if (meant.size() == 1) {
    return meant.front();
  }
  if (meant.empty()) {
    const std::string near = known.empty() ? "" : nearest(words, known);
    const bool named = !near.empty() && edit_distance(words, near) <= kTypos;
    return Error{
        ErrorCode::not_found,
        fmt::format("no device is {}{}; `berth gpus -o wide` lists all {}", printable(words),
                    named ? fmt::format("; did you mean {}?", near) : "", known.size())};
  }
  return invalid_argument(fmt::format("{} is {} devices: {}; write NODE/INDEX or the UUID",
                                      printable(words), meant.size(), fmt::join(meant, ", ")));
}

sim::Document document_of(const json::Value& value) {
  if (value.is_object()) {
    sim::Document object = sim::Document::object();
    for (const auto& [name, member] : value.as_object()) {
      object.add(name, document_of(member));
    }
    return object;
  }
  if (value.is_array()) {
    sim::Document array = sim::Document::array();
    for (const json::Value& item : value.as_array()) {
      array.push(document_of(item));
    }
    return array;
  }
  if (value.is_bool()) {
    return value.as_bool();
  }
  if (value.is_integer()) {
    return value.as_integer();
  }
  if (value.is_double()) {
    return sim::Document::fixed(value.as_double(), 6);
  }
  return value.is_string() ? sim::Document(value.as_string()) : sim::Document();
}

std::string text_of(const json::Value& value, std::string_view format, bool one_of_many) {
  if (format == "yaml") {
    return (one_of_many ? "---\n" : "") + document_of(value).yaml();
  }
  return one_of_many ? json::dump(value) + "\n" : document_of(value).json();
}

}  // namespace berth::cli
