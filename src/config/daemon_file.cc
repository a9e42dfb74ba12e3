#include "config/daemon_file.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace berth::config {

namespace {

struct SectionText {
  std::string_view name;
  std::string_view summary;
};

constexpr auto kSections = std::to_array<SectionText>({
    {"", "The top level."},
    {"tls", "For TCP: certificate and key go together."},
    {"gpu",
     "What there is and who says so: the driver first, then dcgm-exporter, then Prometheus."},
    {"leases", "Times of a lease; a request may ask for its own confirm and ttl."},
    {"limits", "How much of everything."},
    {"evictions", "Work that has to leave for other work."},
    {"burst", "Use between request and limit, which is lent and not promised."},
    {"log", "What is written to standard error."},
});

std::string_view heading(const SectionText& section) {
  return section.name.empty() ? std::string_view("the file") : section.name;
}

// Complaints with their places, so that they come in the order of the lines.
class Reader {
 public:
  Reader(DaemonFile& file, std::string_view name) : file_(file), name_(name) {}

  void complain(Place place, const Error& error) { found_.emplace_back(place, error.message()); }

  void read_document(const Value& document) {
    for (const yaml::Entry& entry : document.node().entries) {
      const Place place{entry.line, entry.column};
      const auto* const section = std::ranges::find(kSections, entry.key, &SectionText::name);
      if (!entry.key.empty() && section != kSections.end()) {
        read_section_of(*section, document.inner(entry.value, entry.key));
      } else {
        read_key_of(kSections.front(), entry, document.inner(entry.value, entry.key), place);
      }
    }
  }

  void read_section_of(const SectionText& section, const Value& value) {
    if (value.node().is_null()) return;  // "gpu:" with everything in it commented out
    if (!value.node().is_map()) {
      return complain(value.place(), not_a_section(section.name, value));
    }
    for (const yaml::Entry& entry : value.node().entries) {
      read_key_of(section, entry, value.inner(entry.value, entry.key), {entry.line, entry.column});
    }
  }

  void read_key_of(const SectionText& section, const yaml::Entry& entry, const Value& value,
                   Place place) {
    std::vector<std::string_view> known;
    for (const Setting& setting : daemon_settings()) {
      if (setting.section != section.name) continue;
      if (setting.doc.name == entry.key) {
        file_.places[setting.path()] = value.place();
        if (auto read = setting.read(value, file_.config); !read.ok()) {
          complain(value.place(), read.error());
        }
        return;
      }
      known.push_back(setting.doc.name);
    }
    if (section.name.empty()) {
      for (const SectionText& other : kSections) {
        if (!other.name.empty()) known.push_back(other.name);
      }
    }
    complain(place, unknown_key(heading(section), entry, name_, known));
  }

  // What the values mean together. Only of what was read without a fault.
  void judge() {
    const DaemonConfig& config = file_.config;
    const auto said = [this](std::string_view path) {
      return file_.places.contains(std::string(path));
    };
    const auto refuse = [this](const std::string& path, std::string_view rule) {
      const Place place = file_.places.at(path);
      complain(place,
               yaml::error_at(name_, place.line, place.column, fmt::format("{}: {}", path, rule)));
    };
    if (said("tls.certificate") != said("tls.key")) {
      said("tls.key")
          ? refuse("tls.key", "a key goes with its certificate: set tls.certificate too")
          : refuse("tls.certificate", "a certificate needs its key: set tls.key too");
    }
    const bool tcp = std::ranges::any_of(
        config.listen, [](const std::string& address) { return !address.starts_with("unix:"); });
    if (tcp && !said("tokens_file")) {
      refuse("listen", "whoever comes over TCP needs a token: set tokens_file (`berth token new`)");
    }
    if (tcp && !said("tls.certificate") && !config.tls.plain_loopback) {
      refuse("listen",
             "TCP needs TLS: set tls.certificate and tls.key; for 127.0.0.1 alone "
             "tls.plain_loopback: true will do");
    }
    if (said("gpu.max_sample_age") && config.gpu.max_sample_age.has_value() &&
        *config.gpu.max_sample_age < config.gpu.sampling) {
      refuse("gpu.max_sample_age",
             fmt::format("a sample would be too old before the next one comes: at least "
                         "gpu.sampling, {}",
                         setting("gpu.sampling").write(config)));
    }
    if (said("limits.connections_per_user") &&
        config.limits.connections_per_user > config.limits.max_connections) {
      refuse("limits.connections_per_user",
             fmt::format("at most limits.max_connections, {}", config.limits.max_connections));
    }
  }

  void finish() {
    std::ranges::stable_sort(
        found_, {}, [](const auto& one) { return std::tuple(one.first.line, one.first.column); });
    for (auto& [place, text] : found_)
      file_.complaints.push_back(std::move(text));
  }

  bool clean() const { return found_.empty(); }

 private:
  static const Setting& setting(std::string_view path) {
    return *std::ranges::find(daemon_settings(), path, &Setting::path);
  }

  DaemonFile& file_;
  std::string_view name_;
  std::vector<std::pair<Place, std::string>> found_;
};

// "sampling: 1s", indented and marked; what is not said as a remark.
std::string line_of(const Setting& setting, const DaemonConfig& config) {
  const std::string value = setting.write(config);
  const std::string_view indent = setting.section.empty() ? "" : "  ";
  if (value.empty()) {
    return fmt::format("{}# {}: not set: {}\n", indent, setting.doc.name, setting.otherwise);
  }
  const bool plain = value == setting.write(DaemonConfig{});
  return fmt::format("{}{}: {}{}\n", indent, setting.doc.name, value, plain ? "  # default" : "");
}

}  // namespace

std::string Setting::path() const {
  return section.empty() ? std::string(doc.name) : fmt::format("{}.{}", section, doc.name);
}

std::string DaemonFile::text() const { return fmt::format("{}", fmt::join(complaints, "\n")); }

DaemonFile read_daemon_file(std::string_view text, std::string_view file_name) {
  DaemonFile file;
  Reader reader(file, file_name);
  const auto documents = yaml::parse(text, file_name);
  if (!documents.ok()) {
    reader.complain({}, documents.error());
  } else if (documents->size() > 1) {
    const yaml::Node& second = documents->at(1);
    reader.complain({second.line, second.column},
                    yaml::error_at(file_name, second.line, second.column,
                                   "a second document: a configuration is one, without ---"));
  } else if (!documents->empty() && !documents->front().is_null()) {
    const Value document(documents->front(), "file", file_name);
    if (document.node().is_map()) {
      reader.read_document(document);
      if (reader.clean()) reader.judge();
    } else {
      reader.complain(document.place(), not_a_section("file", document));
    }
  }
  reader.finish();
  return file;
}

std::string daemon_file_text(const DaemonConfig& config) {
  std::string out;
  for (const SectionText& section : kSections) {
    if (!section.name.empty()) out += fmt::format("{}:\n", section.name);
    for (const Setting& setting : daemon_settings()) {
      if (setting.section == section.name) out += line_of(setting, config);
    }
  }
  return out;
}

std::string Change::text() const {
  return fmt::format("{}: {} -> {} ({})", path, before, after,
                     takes == Takes::at_reload ? "from now on" : "needs a restart");
}

std::vector<Change> changes_between(const DaemonConfig& before, const DaemonConfig& after) {
  const auto shown = [](const std::string& text) { return text.empty() ? "(not set)" : text; };
  std::vector<Change> changes;
  for (const Setting& setting : daemon_settings()) {
    const std::string old = setting.write(before);
    const std::string now = setting.write(after);
    if (old != now) {
      changes.push_back({setting.path(), shown(old), shown(now), setting.takes});
    }
  }
  return changes;
}

std::string daemon_reference_text() {
  constexpr std::array<std::string_view, 7> kTypes = {
      "text", "true or false", "number", "percent", "memory", "duration", "list of …"};
  std::string out = types_table(kTypes);
  for (const SectionText& section : kSections) {
    out += fmt::format(
        "\n## {}\n\n{}\n\n| key | type | meaning | when not said | a change counts | example |\n"
        "| --- | --- | --- | --- | --- | --- |\n",
        heading(section), section.summary);
    for (const Setting& setting : daemon_settings()) {
      if (setting.section != section.name) continue;
      const std::string plain = setting.write(DaemonConfig{});
      out += fmt::format("| `{}` | {} | {} | {} | {} | `{}: {}` |\n", setting.doc.name,
                         setting.doc.type, table_cell(setting.doc.summary),
                         plain.empty() ? table_cell(setting.otherwise) : fmt::format("`{}`", plain),
                         setting.takes == Takes::at_reload ? "at a reload" : "after a restart",
                         setting.doc.name, table_cell(setting.doc.example));
    }
  }
  return out;
}

}  // namespace berth::config
