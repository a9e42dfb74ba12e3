#include "request/pod_limits.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "request/mig_profile.h"
#include "request/units.h"

namespace berth::request {

namespace {

constexpr std::string_view kGpu = "nvidia.com/gpu";
constexpr std::string_view kMemory = "nvidia.com/gpumem";
constexpr std::string_view kPercent = "nvidia.com/gpumem-percentage";
constexpr std::string_view kCores = "nvidia.com/gpucores";
constexpr std::string_view kPriority = "nvidia.com/priority";
constexpr std::string_view kShared = "nvidia.com/gpu.shared";
constexpr std::string_view kVendor = "nvidia.com/";
constexpr std::string_view kMigPrefix = "nvidia.com/mig-";

constexpr std::array<std::string_view, 6> kResources{kGpu,   kMemory,   kPercent,
                                                     kCores, kPriority, kShared};

constexpr IntegerRule kCountRule{.min = 0,
                                 .max = core::kMaxAskCount,
                                 .bad = ReasonCode::bad_device_count,
                                 .bad_unit = ReasonCode::bad_device_count,
                                 .expected = "a whole number of devices, at most 1024"};
constexpr IntegerRule kMemoryRule{.min = 0,
                                  .max = core::kMaxAskMib,
                                  .bad = ReasonCode::bad_memory,
                                  .bad_unit = ReasonCode::bad_memory_unit,
                                  .expected = "whole MiB, e.g. 4000"};
constexpr IntegerRule kPercentRule{.min = 0,
                                   .max = 100,
                                   .bad = ReasonCode::bad_percent,
                                   .bad_unit = ReasonCode::bad_percent,
                                   .expected = "a whole number from 0 to 100"};
constexpr IntegerRule kCoresRule{.min = 0,
                                 .max = 100,
                                 .bad = ReasonCode::bad_cores,
                                 .bad_unit = ReasonCode::bad_cores,
                                 .expected = "a whole number of hundredths from 0 to 100"};
constexpr IntegerRule kPriorityRule{.min = 0,
                                    .max = 1,
                                    .bad = ReasonCode::bad_value,
                                    .bad_unit = ReasonCode::bad_value,
                                    .expected = "0 for high or 1 for low"};

class LimitReader {
 public:
  LimitReader(const ContainerWords& container, const PodRules& rules, Findings& findings)
      : container_(container), rules_(rules), findings_(findings) {}

  LimitAsk run() {
    const Field<std::int64_t> gpu = read(kGpu, kCountRule);
    const Field<std::int64_t> memory = read(kMemory, kMemoryRule);
    const Field<std::int64_t> percent = read(kPercent, kPercentRule);
    const Field<std::int64_t> cores = read(kCores, kCoresRule);
    const Field<std::int64_t> shared = read(kShared, kCountRule);
    const Field<std::int64_t> priority = read(kPriority, kPriorityRule);
    if (priority.value) result_.priority = static_cast<int>(*priority.value);
    if (gpu.value.value_or(0) > 0) result_.gpu_count = gpu.text;

    read_mig();
    const bool hami = memory.present() || percent.present() || cores.value.value_or(0) > 0 ||
                      (cores.present() && !cores.value);
    if (hami) {
      read_hami(gpu, memory, percent, cores);
    } else if (gpu.value.value_or(0) > 0) {
      claim(LimitFamily::whole, gpu, core::DeviceAsk::whole_devices(static_cast<int>(*gpu.value)));
    }
    if (shared.value.value_or(0) > 1) {
      findings_.error(ReasonCode::shared_count_above_one, shared.key, shared.text,
                      "exactly 1: a container holds at most one part", container_.name);
    }
    if (shared.value.value_or(0) > 0) {
      claim(LimitFamily::shared, shared, core::DeviceAsk::replica_part());
    }
    warn_of_other_keys();
    return std::move(result_);
  }

 private:
  Field<std::int64_t> read(std::string_view key, const IntegerRule& rule) {
    Field<std::int64_t> field;
    const auto found = container_.limits.find(std::string(key));
    if (found == container_.limits.end()) return field;
    field.key = found->first;
    field.text = found->second;
    const Parsed<std::int64_t> parsed = parse_resource_integer(field.text, rule);
    if (parsed) {
      field.value = *parsed;
    } else {
      findings_.error(parsed.error().code, field.key, field.text, parsed.error().rule,
                      container_.name);
    }
    return field;
  }

  // Takes what one family asks for. A second family is refused, never silently resolved.
  void claim(LimitFamily family, const Field<std::int64_t>& by, core::DeviceAsk ask) {
    if (result_.family != LimitFamily::none) {
      findings_.error(ReasonCode::mixed_families, by.key, by.text,
                      fmt::format("not beside {}: one container asks in one way", result_.key),
                      container_.name);
      return;
    }
    result_.family = family;
    result_.ask = std::move(ask);
    result_.key = by.key;
    result_.text = by.text;
  }

  void read_mig() {
    for (const auto& [key, text] : container_.limits) {
      if (!key.starts_with(kMigPrefix)) continue;
      const Field<std::int64_t> count = read(key, kCountRule);
      const Parsed<MigProfile> profile =
          parse_mig_resource(std::string_view(key).substr(kVendor.size()));
      if (!profile) {
        findings_.error(profile.error().code, key, text, profile.error().rule, container_.name);
      } else if (count.value.value_or(0) > 0) {
        claim(LimitFamily::mig, count,
              core::DeviceAsk::mig_instances(profile->text(), static_cast<int>(*count.value)));
      }
    }
  }

  // HAMi's keys (annotations.md 1.3, 4).
  void read_hami(const Field<std::int64_t>& gpu, const Field<std::int64_t>& memory,
                 const Field<std::int64_t>& percent, const Field<std::int64_t>& cores) {
    if (gpu.value == 0) {
      findings_.error(ReasonCode::bad_device_count, gpu.key, gpu.text,
                      "at least 1 device for memory or cores to be of; or leave those out",
                      container_.name);
      return;
    }
    for (const Field<std::int64_t>* field : {&memory, &percent}) {
      if (field->value == 0) {
        findings_.warn(ReasonCode::zero_ignored, field->key, field->text, "0 counts as not said",
                       container_.name);
      }
    }
    const std::int64_t units = memory.value.value_or(0);
    const std::int64_t share = percent.value.value_or(0);
    if (units > 0 && share > 0) {
      findings_.warn(ReasonCode::percent_ignored, percent.key, percent.text,
                     "nvidia.com/gpumem says how much", container_.name);
    }
    const bool wrong = (gpu.present() && !gpu.value) || (memory.present() && !memory.value) ||
                       (percent.present() && !percent.value) || (cores.present() && !cores.value);
    const Field<std::int64_t>& by = memory.present() ? memory : percent.present() ? percent : cores;
    if (wrong) {
      // Stands for the family, so that a second one is still noticed.
      claim(LimitFamily::hami, by, {});
      return;
    }
    const std::int64_t core_share = cores.value.value_or(0);
    if (!gpu.present() && units == 0 && share == 0 && core_share == 0) return;

    const int count = static_cast<int>(gpu.value.value_or(1));
    core::DeviceAsk ask;
    if (units > core::kMaxAskMib / rules_.gpumem_factor_mib) {
      findings_.error(ReasonCode::bad_memory, memory.key, memory.text,
                      fmt::format("at most {} MiB", core::kMaxAskMib), container_.name);
    } else if (units > 0) {
      ask = core::DeviceAsk::memory_mib(units * rules_.gpumem_factor_mib, count);
    } else if (share > 0 && share < 100) {
      ask = core::DeviceAsk::fraction_nano(share * (kWholeNano.count() / 100), count);
    } else {
      // All of the memory leaves nothing to share: exclusive, also where cores are limited.
      ask = core::DeviceAsk::whole_devices(count);
    }
    const bool capped = ask.is_share() || core_share < 100;
    if (capped) ask.compute_milli = static_cast<int>(core_share * (kWholeMilli.count() / 100));
    const bool shares = ask.is_share() || ask.compute_milli != 0;
    claim(shares ? LimitFamily::hami : LimitFamily::whole, shares || !gpu.present() ? by : gpu,
          std::move(ask));
  }

  void warn_of_other_keys() {
    for (const auto& [key, text] : container_.limits) {
      if (is_gpu_resource(key)) continue;
      if (is_unsupported_family(key)) {
        findings_.warn(ReasonCode::unsupported_family, key, text, "not read by Berth",
                       container_.name);
      } else if (key.starts_with("nvidia.com/container.") || key.starts_with("gpu-fraction") ||
                 key.starts_with("gpu-memory")) {
        findings_.warn(ReasonCode::misplaced_key, key, text,
                       "has no effect among limits; write it as an annotation of the pod",
                       container_.name);
      } else if (key.starts_with(kVendor)) {
        const auto meant = nearest(key, {kResources.begin(), kResources.end()});
        findings_.warn(ReasonCode::unknown_key, key, text,
                       meant ? fmt::format("not read by Berth; did you mean {}?", *meant)
                             : "not read by Berth",
                       container_.name);
      }
    }
  }

  const ContainerWords& container_;
  const PodRules& rules_;
  Findings& findings_;
  LimitAsk result_;
};

}  // namespace

LimitAsk read_limits(const ContainerWords& container, const PodRules& rules, Findings& findings) {
  return LimitReader(container, rules, findings).run();
}

bool is_unsupported_family(std::string_view key) {
  return key.starts_with("volcano.sh/vgpu-") || key.starts_with("aliyun.com/gpu-");
}

bool is_gpu_resource(std::string_view key) {
  return std::find(kResources.begin(), kResources.end(), key) != kResources.end() ||
         key.starts_with(kMigPrefix);
}

}  // namespace berth::request
