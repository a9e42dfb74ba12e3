// Any bytes as a Kubernetes object: every reader takes it or says what is wrong, and what a pod or
// a node becomes afterwards holds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "core/model/device.h"
#include "kube/objects/amounts.h"
#include "kube/objects/node_reading.h"
#include "kube/objects/read.h"
#include "request/admission.h"

namespace {

using namespace berth;

void check_pod(json::Element root) {
  const auto pod = kube::read_pod(root);
  if (!pod.ok()) {
    ASSERT(!pod.error().message().empty());
    return;
  }
  if (const auto amounts = kube::effective_request(*pod); amounts.ok()) {
    for (const auto& [resource, amount] : *amounts) {
      ASSERT(amount > 0, resource, amount);
    }
  }
  const auto outcome = request::admit_create(pod->words, {});
  ASSERT(outcome.ok() == outcome.errors.empty());
}

void check_node(json::Element root) {
  const auto node = kube::read_node(root);
  if (!node.ok()) {
    return;
  }
  const kube::NodeReading reading = kube::node_from(*node, {.allow_advisory = true});
  if (!reading.excluded.empty()) {
    ASSERT(!reading.node.ready);
    ASSERT(reading.node.devices.empty());
    return;
  }
  ASSERT(core::check_node(reading.node).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static json::DomParser parser;
  const auto root = parser.parse({reinterpret_cast<const char*>(data), size});
  if (!root.ok()) {
    return 0;
  }
  check_pod(*root);
  check_node(*root);
  const bool read = kube::read_namespace(*root).ok() | kube::read_volume_claim(*root).ok() |
                    kube::read_volume(*root).ok() | kube::read_storage_class(*root).ok() |
                    kube::read_csi_node(*root).ok() | kube::read_csi_driver(*root).ok() |
                    kube::read_csi_capacity(*root).ok();
  ASSERT(!read || kube::read_meta(*root).ok());
  return 0;
}
