// The annotation `berth.dev/devices` of a node, written (interfaces.md 7). node_from() reads it.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <string>
#include <vector>

#include "core/model/device.h"
#include "kube/objects/node_reading.h"

namespace berth::kube {

struct DevicesOfNode {
  NodeBackend backend = NodeBackend::none;
  bool ready = false;  // the backend works on this node; written for a backend only
  bool cdi = false;
  bool owned = false;  // no other allocator hands these devices out
  std::vector<core::Device> devices = {};
};

// One line of JSON. A device whose total is unknown stays in, without a total: nothing is granted
// on it.
std::string write_devices_annotation(const DevicesOfNode& node);

}  // namespace berth::kube
