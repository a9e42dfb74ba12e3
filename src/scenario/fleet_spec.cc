#include "scenario/fleet_spec.h"

#include <cstdint>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "config/value.h"
#include "request/reason.h"

namespace berth::scenario {

using config::parse_count;
using config::parse_memory;

namespace {

constexpr std::uint64_t kFnvPrime = 0x100000001B3ULL;
constexpr std::int64_t kPlainCores = 64;
constexpr std::int64_t kPlainRamGib = 256;
constexpr std::string_view kExample = "n1=2x16GiB,n2=8x80GiB:H100";

// FNV-1a, then one round of splitmix64 so that near names give far words.
std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xCBF29CE484222325ULL ^ seed;
  for (const char c : text) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * kFnvPrime;
  }
  hash ^= hash >> 30U;
  hash *= 0xBF58476D1CE4E5B9ULL;
  hash ^= hash >> 27U;
  hash *= 0x94D049BB133111EBULL;
  return hash ^ (hash >> 31U);
}

Error spec_error(std::string_view part, std::string_view rule) {
  return invalid_argument(
      fmt::format("'{}': {}; for example {}", request::printable(part), rule, kExample));
}

// "8x80GiB:H100" -> eight devices on `node`.
Result<void> add_devices(std::string_view part, core::Node& node) {
  const std::size_t times = part.find('x');
  if (times == std::string_view::npos) {
    return spec_error(part, "COUNTxSIZE is expected, or NODE=COUNTxSIZE:MODEL");
  }
  const auto count = parse_count(part.substr(0, times), core::kMaxDevicesPerNode);
  if (!count.ok() || *count == 0) {
    return spec_error(part,
                      fmt::format("the count of devices is 1 to {}", core::kMaxDevicesPerNode));
  }
  const std::string_view device_part = part.substr(times + 1);
  const std::size_t colon = device_part.find(':');
  const auto memory = parse_memory(device_part.substr(0, colon));
  if (!memory.ok()) return spec_error(part, memory.error().message());
  if (memory->count() == 0) return spec_error(part, "a device has memory");
  const std::string_view model =
      colon == std::string_view::npos ? kPlainModel : device_part.substr(colon + 1);
  if (model.empty()) return spec_error(part, "the model after ':' is missing");
  for (int index = 0; index < static_cast<int>(*count); ++index) {
    core::Device device;
    device.index = index;
    device.model = model;
    device.total = *memory;
    device.reserve = core::default_reserve(*memory);
    device.pci_bus_id = derived_bus_id(index);
    device.uuid = derived_uuid(node.name, index, device_spec(device));
    node.devices.push_back(std::move(device));
  }
  return success();
}

}  // namespace

std::string derived_uuid(std::string_view node, int index, std::string_view spec, bool mig) {
  const std::uint64_t high = hash_text(spec, hash_text(node, 0));
  const std::uint64_t low = hash_text(fmt::format("{}/{}/{}", node, index, spec), high);
  return fmt::format("{}-{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", mig ? "MIG" : "GPU",
                     high & 0xFFFFFFFFU, index, (high >> 32U) & 0xFFFU, (low >> 48U) & 0xFFFU,
                     low & 0xFFFFFFFFFFFFULL);
}

std::string derived_bus_id(int index) { return fmt::format("00000000:{:02X}:00.0", index + 1); }

std::string device_spec(const core::Device& device) {
  const std::string size =
      device.total ? fmt::format("{}MiB", device.total->floor_mib()) : "unknown";
  return fmt::format("{}:{}", size, device.model);
}

core::Node plain_node(std::string name) {
  core::Node node;
  node.name = std::move(name);
  node.cpu = Milli{kPlainCores * 1000};
  node.ram = Memory::mib(kPlainRamGib * 1024);
  return node;
}

Result<std::vector<core::Node>> fleet_from_spec(std::string_view spec) {
  if (spec.empty()) return spec_error(spec, "a fleet is expected");
  std::vector<core::Node> nodes;
  std::set<std::string, std::less<>> names;
  while (true) {
    const std::size_t comma = spec.find(',');
    const std::string_view part = spec.substr(0, comma);
    const std::size_t equals = part.find('=');
    if (part.empty()) return spec_error(spec, "nothing stands between two commas or at the end");
    std::string name = equals == std::string_view::npos ? fmt::format("n{}", nodes.size())
                                                        : std::string(part.substr(0, equals));
    if (name.empty()) return spec_error(part, "the node's name before '=' is missing");
    if (name.find('/') != std::string::npos) {
      return spec_error(part, "a node's name has no '/', which stands before a device");
    }
    if (!names.insert(name).second) {
      return spec_error(part, fmt::format("the node {} is given twice", request::printable(name)));
    }
    if (nodes.size() >= kMaxSpecNodes) {
      return spec_error(part, fmt::format("more than {} nodes", kMaxSpecNodes));
    }
    nodes.push_back(plain_node(std::move(name)));
    TRY_VOID(add_devices(equals == std::string_view::npos ? part : part.substr(equals + 1),
                         nodes.back()));
    if (comma == std::string_view::npos) return nodes;
    spec.remove_prefix(comma + 1);
  }
}

}  // namespace berth::scenario
