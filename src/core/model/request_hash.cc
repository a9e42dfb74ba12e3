// Request::hash: every field, in declaration order. Equality is the defaulted one; a test changes
// each field in turn and expects another hash.
#include "core/model/request.h"

namespace berth::core {

namespace {

class Hasher {
 public:
  void add(std::uint64_t word) {
    state_ ^= word;
    state_ *= 0x9E37'79B9'7F4A'7C15U;
    state_ ^= state_ >> 32U;
  }
  void add(std::int64_t number) { add(static_cast<std::uint64_t>(number)); }
  void add(int number) { add(static_cast<std::int64_t>(number)); }
  void add(bool flag) { add(std::uint64_t{flag ? 1U : 0U}); }
  void add(const std::optional<std::int64_t>& number) {
    add(number.has_value());
    add(number.value_or(0));
  }
  void add(const std::string& text) {
    add(std::uint64_t{text.size()});
    for (const char c : text) {
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x0000'0100'0000'01B3U;
    }
  }
  void add(const std::vector<std::string>& list) {
    add(std::uint64_t{list.size()});
    for (const std::string& text : list) {
      add(text);
    }
  }
  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_ = 0xCBF2'9CE4'8422'2325U;
};

void add(Hasher& hasher, const DeviceAsk& gpu) {
  hasher.add(static_cast<int>(gpu.kind));
  hasher.add(gpu.count);
  hasher.add(gpu.mib);
  hasher.add(gpu.nano);
  hasher.add(gpu.limit_mib);
  hasher.add(gpu.limit_nano);
  hasher.add(static_cast<int>(gpu.mode) | static_cast<int>(gpu.backend) << 4 |
             static_cast<int>(gpu.node_order) << 8 | static_cast<int>(gpu.device_order) << 12 |
             (gpu.mutex ? 1 : 0) << 16 | (gpu.numa_bind ? 1 : 0) << 17 |
             static_cast<int>(gpu.links) << 20);
  hasher.add(gpu.compute_milli);
  hasher.add(gpu.mig_profile);
  if (!gpu.filter.empty()) {
    hasher.add(gpu.filter.models);
    hasher.add(gpu.filter.use_types);
    hasher.add(gpu.filter.avoid_types);
    hasher.add(gpu.filter.use_uuids);
    hasher.add(gpu.filter.avoid_uuids);
  }
}

void add(Hasher& hasher, const NodeConstraints& nodes) {
  hasher.add(nodes.names);
  for (const LabelRule& rule : nodes.labels) {
    hasher.add(rule.key);
    hasher.add(static_cast<int>(rule.op));
    hasher.add(rule.values);
  }
  hasher.add(std::uint64_t{nodes.labels.size()});
  for (const Toleration& toleration : nodes.tolerations) {
    hasher.add(toleration.key);
    hasher.add(toleration.exists);
    hasher.add(toleration.value);
    hasher.add(toleration.effect);
  }
}

}  // namespace

std::uint64_t Request::hash() const {
  Hasher hasher;
  hasher.add(spec_.cpu.count());
  hasher.add(spec_.ram.in_bytes());
  for (const ContainerAsk& container : spec_.containers) {
    hasher.add(container.name);
    hasher.add(static_cast<int>(container.kind));
    add(hasher, container.gpu);
  }
  if (!spec_.nodes.empty()) {
    add(hasher, spec_.nodes);
  }
  return hasher.state();
}

}  // namespace berth::core
