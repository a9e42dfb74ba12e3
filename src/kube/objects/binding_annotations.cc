// The annotations of a Binding (annotations.md 3.2).
#include <algorithm>
#include <ranges>

#include <fmt/format.h>

#include "kube/objects/grant.h"
#include "request/slot.h"

namespace berth::kube {

namespace {

constexpr std::size_t kMostKeyName = 63;  // of the part behind the slash

class AnnotationWriter {
 public:
  AnnotationWriter(const Labels& present, const BindingRules& rules)
      : present_(present), rules_(rules) {}

  Labels run(const GrantRecord& record) {
    bool share = false;
    bool mig = false;
    for (const GrantedContainer& container : record.containers) {
      share = share || !container.exclusive;
      mig = mig || container.mig;
      write_container(container);
    }
    const std::string_view type = share ? "Fraction" : mig ? "MigInstance" : "Regular";
    into_.insert_or_assign("received-resource-type", std::string(type));
    into_.insert_or_assign(std::string(kGrantAnnotation), grant_text(record));
    return std::move(into_);
  }

 private:
  void write_container(const GrantedContainer& container) {
    const bool share = !container.exclusive;
    if (!share && !rules_.assigns_whole) {
      return;  // the vendor's plug-in chooses and tells the container
    }
    const std::string devices = device_list(container);
    set(request::slot_key(container.name, request::kDevicesField), devices);
    if (!share) {
      return;
    }
    // One number for all its devices: what holds on each of them.
    const auto request = std::ranges::min(container.devices, {}, &GrantedDevice::request_mib);
    const auto limit = std::ranges::min(container.devices, {}, &GrantedDevice::limit_mib);
    set(request::slot_key(container.name, request::kMemoryRequestField),
        fmt::format("{}", request.request_mib));
    set(request::slot_key(container.name, request::kMemoryLimitField),
        fmt::format("{}", limit.limit_mib));
    set_vendor(container, "gpus.devices", devices);
    add_vendor(container, "gpu-memory.request", fmt::format("{}Mi", request.request_mib));
    if (limit.limit_mib > request.request_mib) {
      add_vendor(container, "gpu-memory.limit", fmt::format("{}Mi", limit.limit_mib));
    }
    if (container.mode == core::SharingMode::sm_sharing) {
      add_vendor(container, "gpu-compute.mode", "sm-sharing");
      set_vendor(container, "gpu-compute.portion", portion(container.compute_milli));
    }
  }

  std::string device_list(const GrantedContainer& container) const {
    std::string list;
    for (const GrantedDevice& device : container.devices) {
      list += list.empty() ? "" : ",";
      list += rules_.cdi ? kCdiPrefix : "";
      list += device.uuid;
    }
    return list;
  }

  // Thousandths as the shortest decimal in (0, 1].
  static std::string portion(int milli) {
    const int value = std::clamp(milli, 1, 1000);
    if (value == 1000) {
      return "1";
    }
    std::string text = fmt::format("0.{:03}", value);
    text.erase(text.find_last_not_of('0') + 1);
    return text;
  }

  void set(std::string key, std::string value) {
    into_.insert_or_assign(std::move(key), std::move(value));
  }

  // Keys of NvFractions, where the container's name leaves room for them (A51).
  void set_vendor(const GrantedContainer& container, std::string_view field, std::string value) {
    const std::string name = fmt::format("container.{}.{}", container.name, field);
    if (name.size() <= kMostKeyName) {
      set("nvidia.com/" + name, std::move(value));
    }
  }

  // The same where nobody wrote the key before.
  void add_vendor(const GrantedContainer& container, std::string_view field, std::string value) {
    if (!present_.contains(fmt::format("nvidia.com/container.{}.{}", container.name, field))) {
      set_vendor(container, field, std::move(value));
    }
  }

  const Labels& present_;
  const BindingRules& rules_;
  Labels into_;
};

}  // namespace

Labels binding_annotations(const GrantRecord& record, const Labels& present,
                           const BindingRules& rules) {
  return AnnotationWriter(present, rules).run(record);
}

}  // namespace berth::kube
