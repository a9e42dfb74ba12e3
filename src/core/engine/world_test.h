// World: a small engine for tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/engine/engine.h"

namespace berth::core {

inline Node node_of(const std::string& name, int devices, std::int64_t mib) {
  Node node;
  node.name = name;
  node.cpu = Milli{64'000};
  node.ram = Memory::mib(262'144);
  for (int i = 0; i < devices; ++i) {
    Device device;
    device.uuid = name + "/g" + std::to_string(i);
    device.index = i;
    device.model = "A100";
    device.total = Memory::mib(mib);
    node.devices.push_back(device);
  }
  return node;
}

inline Request asking(DeviceAsk ask) {
  RequestSpec spec;
  spec.containers.push_back({.name = "main", .kind = ContainerKind::app, .gpu = std::move(ask)});
  return Request::create(std::move(spec)).value();
}

// An engine, and what a test tells it and asks it. Verified after every event.
struct World {
  std::unique_ptr<Engine> engine = Engine::create({}).value();
  Time now;

  std::vector<Action> apply(EventBody body) {
    const auto actions = engine->apply({now, std::move(body)});
    EXPECT_TRUE(verify(*engine).ok()) << verify(*engine).error().to_string();
    return {actions.begin(), actions.end()};
  }

  void submit(const std::string& uid, DeviceAsk ask, WorkloadOptions options = {}) {
    apply(WorkloadSubmitted{Workload::task(uid, asking(std::move(ask)), std::move(options))});
  }

  std::string device_of(const std::string& uid) const {
    const Grant* grant = engine->grant(uid);
    return grant == nullptr || grant->state == GrantState::promised
               ? "-"
               : engine->fleet().uuid(grant->charges.front().device);
  }

  std::string cause(const std::string& uid) const {
    return std::string(cause_name(engine->cause(uid)));
  }
};

}  // namespace berth::core
