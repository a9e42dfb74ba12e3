#include "gpu/exporter.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "gpu/problems.h"
#include "gpu/reading.h"
#include "gpu/xid.h"

namespace berth::gpu {

namespace {

constexpr std::size_t kMostLabel = 200;  // bytes of a label that is shown
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
constexpr Range kXids{0, 99'999};
constexpr Range kIndices{0, 1'000'000};

constexpr std::array<std::pair<ExporterMetric, std::string_view>, 4> kMetrics{{
    {ExporterMetric::free, "DCGM_FI_DEV_FB_FREE"},
    {ExporterMetric::used, "DCGM_FI_DEV_FB_USED"},
    {ExporterMetric::reserved, "DCGM_FI_DEV_FB_RESERVED"},
    {ExporterMetric::xid, "DCGM_FI_DEV_XID_ERRORS"},
}};

struct Label {
  std::string_view name;
  std::string ExporterLabels::* field;
  bool older = false;  // gives way to the newer name
};
constexpr std::array<Label, 10> kLabels{{
    {"UUID", &ExporterLabels::uuid},
    {"uuid", &ExporterLabels::uuid, true},
    {"hostname", &ExporterLabels::host},
    {"Hostname", &ExporterLabels::host, true},
    {"gpu", &ExporterLabels::gpu},
    {"modelName", &ExporterLabels::model},
    {"pci_bus_id", &ExporterLabels::bus_id},
    {"GPU_I_ID", &ExporterLabels::instance},
    {"GPU_I_PROFILE", &ExporterLabels::profile},
    {"dra_mig_device_uuid", &ExporterLabels::mig_uuid},
}};

// A sample with its value read: bytes, or an XID.
struct Read {
  std::int64_t stamp = 0;
  std::optional<std::int64_t> value;
  std::string problem;  // why there is none
};

// Of two samples of one time that one counts which promises less. A memory that cannot be read
// promises nothing; an XID that cannot be read says nothing.
std::pair<int, std::int64_t> weight(ExporterMetric metric, const Read& read) {
  if (metric == ExporterMetric::xid) {
    if (!read.value) return {-1, 0};
    return {is_critical_xid(static_cast<int>(*read.value)) && *read.value != 0 ? 1 : 0,
            *read.value};
  }
  if (!read.value) return {2, 0};
  return {1, metric == ExporterMetric::free ? -*read.value : *read.value};
}

// What is known of one device: of each metric the sample that counts, and the newest labels.
struct Facts {
  std::map<ExporterMetric, Read> reads;
  std::int64_t labels_stamp = kNever;
  ExporterLabels labels;
  bool named = false;  // its own UUID is known
  bool has_instances = false;

  const Read* find(ExporterMetric metric) const {
    const auto found = reads.find(metric);
    return found == reads.end() ? nullptr : &found->second;
  }
};

// What has happened to a GPU has happened to its instances.
void inherit_health(std::vector<DeviceReport>& devices) {
  std::map<std::string_view, const DeviceReport*> lost;
  for (const DeviceReport& device : devices) {
    if (device.lost && !device.device.is_mig()) lost.emplace(device.device.uuid, &device);
  }
  for (DeviceReport& device : devices) {
    const auto gpu = lost.find(device.device.mig_parent);
    if (gpu == lost.end()) continue;
    device.lost = true;
    device.device.health = core::DeviceHealth::unhealthy;
    device.xids.insert(device.xids.end(), gpu->second->xids.begin(), gpu->second->xids.end());
    add_problem(device.problem, "its GPU is lost");
  }
}

bool is_instance_uuid(std::string_view uuid) { return uuid.starts_with("MIG-"); }

// Which device a sample is of.
struct Identity {
  std::string uuid;
  bool named = true;
};

Identity identity_of(const ExporterLabels& labels, const ExporterOptions& options) {
  // An exporter that knows instances by UUID needs no number.
  if (labels.instance.empty() || is_instance_uuid(labels.uuid)) return {.uuid = labels.uuid};
  if (!labels.mig_uuid.empty()) return {.uuid = labels.mig_uuid};
  const auto given = options.instances.find(labels.uuid + "/" + labels.instance);
  if (given != options.instances.end()) return {.uuid = given->second};
  return {.uuid = fmt::format("MIG-{}/{}/0", labels.uuid, labels.instance), .named = false};
}

Read read_of(const ExporterSample& sample, const ExporterOptions& options) {
  Read read{.stamp = sample.stamp_ms.value_or(options.wall_ms), .value = {}, .problem = {}};
  const std::string_view name = exporter_metric_name(sample.metric);
  if (sample.stamp_bad) {
    read.stamp = kNever;  // any other sample is better than one of unknown age
    read.problem = fmt::format("{} has a time stamp that cannot be read", name);
    return read;
  }
  if (sample.metric == ExporterMetric::xid) {
    const auto xid = read_whole(name, sample.value, kXids);
    if (xid.ok()) {
      read.value = *xid;
    } else {
      read.problem = xid.error().message();
    }
    return read;
  }
  const auto memory =
      read_mib(name, sample.value, sample.metric == ExporterMetric::free ? Round::down : Round::up);
  if (memory.ok()) {
    read.value = memory->in_bytes();
  } else {
    read.problem = memory.error().message();
  }
  return read;
}

class Join {
 public:
  explicit Join(const ExporterOptions& options) : options_(options) {}

  void add(const ExporterSample& sample);
  Report report();

 private:
  void find_parents();
  DeviceReport report_of_one(const std::string& uuid, const Facts& facts) const;
  void describe(const std::string& uuid, const Facts& facts, DeviceReport& report) const;
  void set_memory(const Facts& facts, DeviceReport& report) const;
  static void set_xid(const Facts& facts, DeviceReport& report);

  const ExporterOptions& options_;
  std::map<std::string, Facts> devices_;        // by UUID
  std::map<std::string, std::string> parents_;  // instance -> GPU
  std::size_t nameless_ = 0;                    // samples without a UUID
  bool any_memory_ = false;
};

void Join::add(const ExporterSample& sample) {
  any_memory_ = any_memory_ || sample.metric != ExporterMetric::xid;
  if (sample.labels.uuid.empty()) {
    ++nameless_;
    return;
  }
  const Identity identity = identity_of(sample.labels, options_);
  Facts& facts = devices_[identity.uuid];
  facts.named = facts.named || identity.named;
  Read read = read_of(sample, options_);
  if (std::tie(read.stamp, sample.labels) > std::tie(facts.labels_stamp, facts.labels)) {
    facts.labels_stamp = read.stamp;
    facts.labels = sample.labels;
  }
  const auto [known, fresh] = facts.reads.try_emplace(sample.metric, read);
  if (fresh) return;
  const auto order = [&sample](const Read& one) {
    return std::tuple(one.stamp, weight(sample.metric, one), one.problem);
  };
  if (order(read) > order(known->second)) known->second = std::move(read);
}

// The GPU of an instance is named by the instance's labels, or has the same index on the same host.
void Join::find_parents() {
  std::map<std::pair<std::string, std::string>, std::string> at;  // host, index -> GPU
  for (const auto& [uuid, facts] : devices_) {
    if (!is_instance_uuid(uuid) && facts.labels.uuid == uuid) {
      at.emplace(std::pair(facts.labels.host, facts.labels.gpu), uuid);
    }
  }
  for (const auto& [uuid, facts] : devices_) {
    if (facts.labels.uuid != uuid) {
      parents_[uuid] = facts.labels.uuid;
    } else if (is_instance_uuid(uuid)) {
      const auto gpu = at.find(std::pair(facts.labels.host, facts.labels.gpu));
      if (gpu != at.end()) parents_[uuid] = gpu->second;
    }
  }
  for (const auto& [instance, gpu] : parents_) {
    Facts& whole = devices_[gpu];
    whole.has_instances = true;
    // Without a series of its own: what its first instance says of it.
    if (whole.labels.uuid.empty()) whole.labels = devices_[instance].labels;
  }
}

void Join::describe(const std::string& uuid, const Facts& facts, DeviceReport& report) const {
  const ExporterLabels& labels = facts.labels;
  core::Device& device = report.device;
  report.node = labels.host.empty() ? options_.node : labels.host;
  device.uuid = uuid;
  device.model = labels.model;
  device.pci_bus_id = labels.bus_id;
  device.mig_enabled = facts.has_instances;
  if (const auto index = read_whole("gpu", labels.gpu, kIndices); index.ok()) {
    device.index = static_cast<int>(*index);
  }
  const auto parent = parents_.find(uuid);
  if (parent != parents_.end()) device.mig_parent = parent->second;
  if (parent == parents_.end() && !is_instance_uuid(uuid)) return;
  device.mig_profile = labels.profile.empty() ? "unknown" : labels.profile;
  if (facts.named) return;
  add_problem(report.problem,
              fmt::format("its series name GPU and instance {} only, and work can be pinned to an "
                          "instance by its own UUID only: configure that UUID, or read the node's "
                          "driver",
                          labels.instance));
}

void Join::set_memory(const Facts& facts, DeviceReport& report) const {
  std::optional<std::int64_t> age;
  bool known = facts.named;
  for (const ExporterMetric metric : {ExporterMetric::free, ExporterMetric::used}) {
    const Read* read = facts.find(metric);
    if (read == nullptr || !read->value) {
      known = false;
      add_problem(report.problem, read == nullptr
                                      ? fmt::format("{} is missing", exporter_metric_name(metric))
                                      : read->problem);
    }
    if (read == nullptr || read->stamp == kNever) continue;
    age = std::max(age.value_or(kNever), options_.wall_ms - read->stamp);
  }
  report.age_ms = age.value_or(0);
  const Read* free = facts.find(ExporterMetric::free);
  const Read* used = facts.find(ExporterMetric::used);
  if (free == nullptr || used == nullptr || !free->value || !used->value) return;
  // Without RESERVED, free + used stands for total - reserve.
  std::int64_t reserved = 0;
  if (const Read* read = facts.find(ExporterMetric::reserved); read != nullptr) {
    reserved = read->value.value_or(0);
    add_problem(report.problem, read->problem);
  }
  const Memory total = Memory::bytes(*free->value + *used->value + reserved);
  if (total <= Memory() || total > Memory::mib(core::kMaxMemoryMib)) {
    add_problem(report.problem, fmt::format("free and used memory are {} MiB together, which no "
                                            "device has",
                                            total.floor_mib()));
    return;
  }
  report.device.total = total;
  report.device.reserve = Memory::bytes(reserved) + options_.safety_margin;
  if (known) report.used = Memory::bytes(*used->value);
}

void Join::set_xid(const Facts& facts, DeviceReport& report) {
  const Read* read = facts.find(ExporterMetric::xid);
  if (read == nullptr) return;
  add_problem(report.problem, read->problem);
  const auto xid = static_cast<int>(read->value.value_or(0));
  if (xid == 0) return;
  if (!is_critical_xid(xid)) {
    report.app_xids.push_back(xid);
    return;
  }
  report.xids.push_back(xid);
  report.lost = true;
  report.device.health = core::DeviceHealth::unhealthy;
  add_problem(report.problem,
              fmt::format("its last error is XID {} ({})", xid, xid_class_name(classify_xid(xid))));
}

DeviceReport Join::report_of_one(const std::string& uuid, const Facts& facts) const {
  DeviceReport report{.node = {}, .device = {}};
  describe(uuid, facts, report);
  // A GPU that is cut may have no series of memory: it is not offered.
  const bool silent = facts.has_instances && facts.find(ExporterMetric::free) == nullptr;
  if (!silent) set_memory(facts, report);
  set_xid(facts, report);
  return report;
}

Report Join::report() {
  Report report;
  if (nameless_ > 0) {
    report.problems.push_back(
        fmt::format("{} samples have no label UUID and count for nothing", nameless_));
  }
  if (!any_memory_ || devices_.empty()) {
    report.up = false;
    report.why_down =
        "no series of GPU memory (DCGM_FI_DEV_FB_FREE, DCGM_FI_DEV_FB_USED) with a UUID: see that "
        "dcgm-exporter runs and exports these fields, and that the selector fits";
    return report;
  }
  find_parents();
  for (const auto& [uuid, facts] : devices_)
    report.devices.push_back(report_of_one(uuid, facts));
  inherit_health(report.devices);
  std::ranges::sort(report.devices, {}, [](const DeviceReport& one) {
    return std::tie(one.node, one.device.index, one.device.uuid);
  });
  return report;
}

}  // namespace

std::string_view exporter_metric_name(ExporterMetric metric) {
  return std::ranges::find(kMetrics, metric, &std::pair<ExporterMetric, std::string_view>::first)
      ->second;
}

std::optional<ExporterMetric> exporter_metric(std::string_view name) {
  for (const auto& [metric, known] : kMetrics) {
    if (known == name) return metric;
  }
  return std::nullopt;
}

void set_label(ExporterLabels& labels, std::string_view name, std::string_view value) {
  for (const Label& label : kLabels) {
    if (label.name != name) continue;
    std::string& field = labels.*label.field;
    if (!label.older || field.empty()) field = shortened(printable(value), kMostLabel);
  }
}

Report report_of(std::span<const ExporterSample> samples, const ExporterOptions& options) {
  Join join(options);
  for (const ExporterSample& sample : samples)
    join.add(sample);
  return join.report();
}

}  // namespace berth::gpu
