// A world for each cause that the engine gives, and what its sentence must be: the cases.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/engine/engine.h"

namespace berth::core {

struct SentenceWorld {
  explicit SentenceWorld(EngineConfig config = {})
      : engine(Engine::create(std::move(config)).value()) {}

  std::unique_ptr<Engine> engine;
  Time now;

  void apply(EventBody body) { (void)engine->apply({now, std::move(body)}); }

  void submit(const std::string& uid, DeviceAsk ask, WorkloadOptions options = {},
              NodeConstraints nodes = {}) {
    RequestSpec spec;
    spec.nodes = std::move(nodes);
    spec.containers.push_back({.name = "main", .kind = ContainerKind::app, .gpu = std::move(ask)});
    apply(WorkloadSubmitted{
        Workload::task(uid, Request::create(std::move(spec)).value(), std::move(options))});
  }

  void submit_cpu(const std::string& uid, std::int64_t milli) {
    RequestSpec spec;
    spec.cpu = Milli(milli);
    apply(WorkloadSubmitted{Workload::task(uid, Request::create(std::move(spec)).value())});
  }

  void observe(const std::string& uuid, std::int64_t mib, bool attributed,
               std::vector<DeviceObserved::Use> uses = {}) {
    DeviceObserved seen;
    seen.uuid = uuid;
    seen.sampled_at = now;
    seen.used = Memory::mib(mib);
    seen.attributed = attributed;
    seen.uses = std::move(uses);
    apply(std::move(seen));
  }
};

struct SentenceCase {
  Cause cause;
  std::string sentence;
  void (*build)(SentenceWorld& world);  // submits "x" last
  EngineConfig config = {};
};

std::vector<SentenceCase> sentence_cases();

// One node of A100s, as the cases have them.
Node sentence_node(const std::string& name, int devices, std::int64_t mib = 16384);

}  // namespace berth::core
