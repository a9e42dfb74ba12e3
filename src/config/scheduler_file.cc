#include "config/scheduler_file.h"

#include <array>

#include <fmt/format.h>

#include "core/placement/registry.h"

namespace berth::config {

namespace {

Result<void> words_into(const Value& value, std::vector<std::string>& into) {
  TRY(const std::vector<Value> items, value.items());
  for (const Value& item : items) {
    TRY(std::string word, item.word());
    into.push_back(std::move(word));
  }
  return success();
}

constexpr std::int64_t kMostPercent = 100'000;
constexpr std::int64_t kMostFactor = 1'048'576;

constexpr std::array kKeys = {
    Key<SchedulerSettings>{{"schedulerName", "name",
                            "pods whose spec.schedulerName is this are ours", "berth-scheduler"},
                           [](const Value& value, SchedulerSettings& into) -> Result<void> {
                             TRY(into.scheduler_name, value.word());
                             return success();
                           }},
    Key<SchedulerSettings>{
        {"policy", "name", "how places are chosen where a queue says nothing (`berth policies`)",
         "pack"},
        [](const Value& value, SchedulerSettings& into) -> Result<void> {
          TRY(into.policy, value.word());
          if (const auto made = core::make_policy(into.policy, {}); !made.ok()) {
            return value.error(made.error().message());
          }
          return success();
        }},
    Key<SchedulerSettings>{{"queues_file", "list of file", "the quota tree (docs/queues.md)",
                            "/etc/berth/queues.yaml"},
                           [](const Value& value, SchedulerSettings& into) {
                             return words_into(value, into.queues_files);
                           }},
    Key<SchedulerSettings>{
        {"listen", "list of address",
         "where probes, metrics and readers are answered, in plain HTTP", "0.0.0.0:8080"},
        [](const Value& value, SchedulerSettings& into) { return words_into(value, into.listen); }},
    Key<SchedulerSettings>{
        {"eviction", "off", "nobody is asked to leave; there is no other value yet", "off"},
        [](const Value& value, SchedulerSettings&) -> Result<void> {
          constexpr std::array<std::pair<std::string_view, bool>, 2> kOff{
              {{"off", false}, {"false", false}}};
          TRY([[maybe_unused]] const bool off,
              value.choice(std::span<const std::pair<std::string_view, bool>>(kOff)));
          return success();
        }},
    Key<SchedulerSettings>{
        {"limitOvercommitPercent", "number",
         "the burst limits on a device may sum to this much of its memory", "200"},
        [](const Value& value, SchedulerSettings& into) -> Result<void> {
          TRY(into.limit_overcommit_percent, value.number(100, kMostPercent));
          return success();
        }},
    Key<SchedulerSettings>{{"reserve", "memory",
                            "kept back on each device whose reserve nobody measured or stated; 3 % "
                            "of it, at least 256MiB, when not said",
                            "1GiB"},
                           [](const Value& value, SchedulerSettings& into) -> Result<void> {
                             TRY(into.reserve, value.memory());
                             return success();
                           }},
    Key<SchedulerSettings>{
        {"memoryFactor", "number", "MiB that one unit of nvidia.com/gpumem is", "1"},
        [](const Value& value, SchedulerSettings& into) -> Result<void> {
          TRY(into.gpumem_factor_mib, value.number(1, kMostFactor));
          return success();
        }},
    Key<SchedulerSettings>{
        {"sharing", "true or false", "devices may be shared; true when not said", "true"},
        [](const Value& value, SchedulerSettings& into) -> Result<void> {
          TRY(into.sharing, value.truth());
          return success();
        }},
    Key<SchedulerSettings>{
        {"allowPrivilegedShares", "true or false",
         "privileged containers may have shares, though nothing holds them to it", "false"},
        [](const Value& value, SchedulerSettings& into) -> Result<void> {
          TRY(into.allow_privileged_shares, value.truth());
          return success();
        }},
    Key<SchedulerSettings>{
        {"allowAdvisory", "true or false",
         "shares may go to nodes where nothing enforces them (backend none)", "false"},
        [](const Value& value, SchedulerSettings& into) -> Result<void> {
          TRY(into.allow_advisory, value.truth());
          return success();
        }},
    Key<SchedulerSettings>{
        {"wholeDevices", "berth or plugin",
         "who says which whole device a container gets: Berth's own device plug-in by the binding, "
         "or the vendor's, which chooses itself",
         "plugin"},
        [](const Value& value, SchedulerSettings& into) -> Result<void> {
          constexpr std::array<std::pair<std::string_view, bool>, 2> kWho{
              {{"berth", true}, {"plugin", false}}};
          TRY(into.whole_devices_by_berth,
              value.choice(std::span<const std::pair<std::string_view, bool>>(kWho)));
          return success();
        }},
    Key<SchedulerSettings>{
        {"requireAdmission", "true or false",
         "shares need the environment that the webhook adds; without it a container could see "
         "every device",
         "true"},
        [](const Value& value, SchedulerSettings& into) -> Result<void> {
          TRY(into.require_admission, value.truth());
          return success();
        }},
    Key<SchedulerSettings>{
        {"leaseNamespace", "name", "where the leader's lease is", "berth-system"},
        [](const Value& value, SchedulerSettings& into) -> Result<void> {
          TRY(into.lease_namespace, value.word());
          return success();
        }},
    Key<SchedulerSettings>{{"leaseName", "name", "what it is called", "berth-scheduler"},
                           [](const Value& value, SchedulerSettings& into) -> Result<void> {
                             TRY(into.lease_name, value.word());
                             return success();
                           }},
    Key<SchedulerSettings>{{"leaseDuration", "duration",
                            "a leader that was not heard of for so long is followed", "15s"},
                           [](const Value& value, SchedulerSettings& into) -> Result<void> {
                             TRY(into.lease_duration, value.duration());
                             return success();
                           }},
    Key<SchedulerSettings>{{"leaseFence", "duration",
                            "a leader that could not renew for so long writes nothing more; below "
                            "leaseDuration",
                            "10s"},
                           [](const Value& value, SchedulerSettings& into) -> Result<void> {
                             TRY(into.lease_fence, value.duration());
                             return success();
                           }},
    Key<SchedulerSettings>{{"leaseRetry", "duration", "between two renewals", "2s"},
                           [](const Value& value, SchedulerSettings& into) -> Result<void> {
                             TRY(into.lease_retry, value.duration());
                             return success();
                           }},
};

constexpr Section<SchedulerSettings> kFile{
    "scheduler", "The configuration of `berth scheduler`. Every key may be left out.", kKeys};

}  // namespace

Result<SchedulerSettings> read_scheduler_file(std::string_view text, std::string_view file_name) {
  SchedulerSettings settings;
  TRY(const std::vector<yaml::Node> documents, yaml::parse(text, file_name));
  if (documents.empty() || documents.front().is_null()) {
    return settings;
  }
  if (documents.size() > 1) {
    return yaml::error_at(file_name, documents[1].line, documents[1].column,
                          "a second document: a configuration is one, without ---");
  }
  const Value document(documents.front(), "file", file_name);
  std::string complaints;
  for (const Error& error : read_whole_section(kFile, document, settings)) {
    complaints += (complaints.empty() ? "" : "\n") + error.message();
  }
  if (!complaints.empty()) {
    return invalid_argument(std::move(complaints));
  }
  if (settings.lease_fence >= settings.lease_duration ||
      settings.lease_retry >= settings.lease_fence) {
    return invalid_argument(fmt::format(
        "{}: leaseRetry < leaseFence < leaseDuration must hold: who may no longer lead must stop "
        "writing before another begins",
        file_name));
  }
  return settings;
}

SectionDoc scheduler_file_doc() { return section_doc(kFile); }

}  // namespace berth::config
