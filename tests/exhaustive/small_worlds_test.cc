#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/engine/engine.h"
#include "oracle/tiny_packer.h"

namespace berth {
namespace {

using core::DeviceAsk;
using core::Engine;
using core::Outcome;
using oracle::PackOutcome;

// A fleet as usable MiB per device, node by node.
using Shape = std::vector<std::vector<std::int64_t>>;

constexpr std::int64_t kCores = 2;

// One kind of request; a release of the oldest grant is the last kind of step.
struct Kind {
  std::int64_t mib = 0;
  int devices = 1;
  bool whole = false;
  std::int64_t cores = 0;
};

constexpr std::array<Kind, 7> kKinds{{{.mib = 1},
                                      {.mib = 2, .cores = 1},
                                      {.mib = 3},
                                      {.mib = 4, .cores = 2},
                                      {.mib = 2, .devices = 2},
                                      {.whole = true},
                                      {.devices = 2, .whole = true, .cores = 1}}};
constexpr std::size_t kSteps = kKinds.size() + 1;
constexpr std::size_t kRelease = kKinds.size();

core::Request request_of(const Kind& kind) {
  core::RequestSpec spec;
  spec.cpu = Milli(kind.cores * 1000);
  spec.containers.push_back({.name = "main",
                             .kind = core::ContainerKind::app,
                             .gpu = kind.whole ? DeviceAsk::whole_devices(kind.devices)
                                               : DeviceAsk::memory_mib(kind.mib, kind.devices)});
  return core::Request::create(std::move(spec)).value();
}

oracle::TinyItem item_of(const Kind& kind) {
  return {.devices = kind.devices,
          .memory = Memory::mib(kind.mib),
          .whole = kind.whole,
          .cpu = Milli(kind.cores * 1000)};
}

class SmallWorld {
 public:
  SmallWorld(Shape shape, const std::string& policy) : shape_(std::move(shape)) {
    core::EngineConfig config;
    config.policy = policy;
    config.reservations = false;
    config.whole_foreign_max = Memory();
    engine_ = Engine::create(config).value();
    for (std::size_t n = 0; n < shape_.size(); ++n) {
      core::Node node;
      node.name = fmt::format("n{}", n);
      node.cpu = Milli(kCores * 1000);
      for (std::size_t d = 0; d < shape_[n].size(); ++d) {
        core::Device device;
        device.uuid = fmt::format("n{}/g{}", n, d);
        device.total = Memory::mib(shape_[n][d]);
        node.devices.push_back(device);
      }
      engine_->apply({Time(0), core::NodeUpserted{node}});
    }
  }

  // Does one step and checks every answer. Empty when all are true.
  std::string step(std::size_t choice) {
    if (choice == kRelease) {
      release_oldest();
    } else {
      const std::string uid = fmt::format("w{}", submitted_++);
      const auto fits = oracle::can_pack_all(world(true), {item_of(kKinds[choice])});
      work_.push_back({uid, choice});
      engine_->apply({Time(0), core::WorkloadSubmitted{
                                   core::Workload::task(uid, request_of(kKinds[choice]))}});
      const bool granted = engine_->outcome(uid) == Outcome::granted;
      if (granted != (fits->outcome == PackOutcome::proved_possible)) {
        return fmt::format("{} was {}granted, the packer says otherwise", uid,
                           granted ? "" : "not ");
      }
    }
    return judge();
  }

 private:
  struct Work {
    std::string uid;
    std::size_t kind = 0;
  };

  void release_oldest() {
    for (std::size_t i = 0; i < work_.size(); ++i) {
      if (engine_->grant(work_[i].uid) != nullptr) {
        engine_->apply({Time(0), core::GrantReleased{work_[i].uid}});
        work_.erase(work_.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
    }
  }

  // The world as the grants leave it, or empty. Sums are made here, not read from the ledger.
  oracle::TinyWorld world(bool with_grants) const {
    oracle::TinyWorld world;
    for (const std::vector<std::int64_t>& node : shape_) {
      oracle::TinyNode tiny{.cpu = Milli(kCores * 1000), .ram = Memory()};
      for (const std::int64_t mib : node) {
        tiny.devices.push_back({.usable = Memory::mib(mib), .free = Memory::mib(mib)});
      }
      world.nodes.push_back(tiny);
    }
    for (const Work& work : work_) {
      const core::Grant* grant = engine_->grant(work.uid);
      if (!with_grants || grant == nullptr) {
        continue;
      }
      oracle::TinyNode& node = world.nodes[grant->node.index()];
      node.cpu -= grant->cpu;
      for (const core::DeviceCharge& charge : grant->charges) {
        oracle::TinyDevice& device = node.devices[engine_->fleet().place_of(charge.device)];
        device.free -= Memory::mib(charge.running_mib);
        device.empty = false;
        EXPECT_GE(device.free, Memory());
      }
      EXPECT_GE(node.cpu, Milli());
    }
    return world;
  }

  std::string judge() const {
    for (const Work& work : work_) {
      const Outcome outcome = *engine_->outcome(work.uid);
      if (outcome == Outcome::granted) {
        continue;
      }
      const std::vector<oracle::TinyItem> item{item_of(kKinds[work.kind])};
      if (oracle::can_pack_all(world(true), item)->outcome != PackOutcome::proved_impossible) {
        return fmt::format("{} is {} although it fits", work.uid, core::outcome_name(outcome));
      }
      const bool fits_empty =
          oracle::can_pack_all(world(false), item)->outcome == PackOutcome::proved_possible;
      if (fits_empty != (outcome == Outcome::waiting)) {
        return fmt::format("{} is {}, on an empty fleet it {}", work.uid,
                           core::outcome_name(outcome), fits_empty ? "fits" : "does not fit");
      }
    }
    const Result<void> books = core::verify(*engine_);
    return books.ok() ? "" : books.error().to_string();
  }

  Shape shape_;
  std::unique_ptr<Engine> engine_;
  std::vector<Work> work_;
  int submitted_ = 0;
};

class SmallWorlds : public testing::TestWithParam<const char*> {};

TEST_P(SmallWorlds, AnswerAsAnExactPackerWouldAfterEverySequenceOfFourSteps) {
  const std::vector<Shape> shapes{{{4}}, {{4, 3}}, {{2, 3, 4}}, {{4}, {3, 3}}};
  constexpr std::size_t kLength = 4;
  std::size_t sequences = 0;
  for (const Shape& shape : shapes) {
    for (std::size_t code = 0; code < kSteps * kSteps * kSteps * kSteps; ++code) {
      SmallWorld world(shape, GetParam());
      std::size_t rest = code;
      std::string steps;
      for (std::size_t i = 0; i < kLength; ++i, rest /= kSteps) {
        steps += fmt::format(" {}", rest % kSteps);
        const std::string wrong = world.step(rest % kSteps);
        ASSERT_EQ(wrong, "") << GetParam() << ", fleet " << shape.size() << ", steps" << steps;
      }
      ++sequences;
    }
  }
  EXPECT_EQ(sequences, 4U * 4096U);
}

INSTANTIATE_TEST_SUITE_P(Policies, SmallWorlds,
                         testing::Values("pack", "fgd", "best-fit", "spread",
                                         "nodes=spread,devices=pack"));

}  // namespace
}  // namespace berth
