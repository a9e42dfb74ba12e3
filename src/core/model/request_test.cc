#include "core/model/request.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace berth::core {
namespace {

RequestSpec asking(DeviceAsk ask) {
  RequestSpec spec;
  spec.containers.push_back({"main", ContainerKind::app, std::move(ask)});
  return spec;
}

bool valid(DeviceAsk ask) { return Request::create(asking(std::move(ask))).ok(); }

TEST(Request, EveryBoundIsInclusiveAndOneBeyondIsRefused) {
  EXPECT_TRUE(valid(DeviceAsk::memory_mib(1)));
  EXPECT_FALSE(valid(DeviceAsk::memory_mib(0)));
  EXPECT_TRUE(valid(DeviceAsk::memory_mib(kMaxAskMib)));
  EXPECT_FALSE(valid(DeviceAsk::memory_mib(kMaxAskMib + 1)));
  EXPECT_TRUE(valid(DeviceAsk::fraction_nano(1)));
  EXPECT_TRUE(valid(DeviceAsk::fraction_nano(999'999'999)));
  EXPECT_FALSE(valid(DeviceAsk::fraction_nano(1'000'000'000)));
  EXPECT_FALSE(valid(DeviceAsk::fraction_nano(0)));
  EXPECT_TRUE(valid(DeviceAsk::whole_devices(kMaxAskCount)));
  EXPECT_FALSE(valid(DeviceAsk::whole_devices(kMaxAskCount + 1)));
  EXPECT_FALSE(valid(DeviceAsk::whole_devices(0)));
  EXPECT_FALSE(valid(DeviceAsk::mig_instances("")));
}

TEST(Request, LimitsLieBetweenTheRequestAndOneDevice) {
  DeviceAsk ask = DeviceAsk::memory_mib(100);
  ask.limit_mib = 99;
  EXPECT_FALSE(valid(ask));
  ask.limit_mib = 100;
  EXPECT_TRUE(valid(ask));
  DeviceAsk fraction = DeviceAsk::fraction_nano(500);
  fraction.limit_nano = 499;
  EXPECT_FALSE(valid(fraction));
  fraction.limit_nano = kWholeNano.count();
  EXPECT_TRUE(valid(fraction));
  DeviceAsk whole = DeviceAsk::whole_devices(1);
  whole.limit_mib = 100;
  EXPECT_FALSE(valid(whole));
}

TEST(Request, AnErrorNamesTheContainerTheValueAndTheRule) {
  EXPECT_EQ(Request::create(asking(DeviceAsk::whole_devices(2000))).error().message(),
            "container main: device count is 2000; it must lie between 1 and 1024");
}

TEST(Request, SharesRoundDownAndNeverSumToMoreThanTheDevice) {
  EXPECT_EQ(request_mib_on(DeviceAsk::fraction_nano(250'000'000), 81'559, 0), 20'389);
  EXPECT_EQ(request_mib_on(DeviceAsk::fraction_nano(800'000'000), 976, 0), 780);
  EXPECT_EQ(request_mib_on(DeviceAsk::replica_part(), 81'559, 4), 20'389);
  std::mt19937_64 random(1);
  for (int round = 0; round < 10'000; ++round) {
    const auto usable = static_cast<std::int64_t>(random() % 1'000'000'000);
    std::int64_t left = kWholeNano.count();
    std::int64_t sum = 0;
    while (left > 1) {
      const auto nano = 1 + static_cast<std::int64_t>(random()) % (left / 2 + 1);
      const std::int64_t part = nano < 0 ? 1 : nano;
      sum += request_mib_on(DeviceAsk::fraction_nano(part), usable, 0);
      left -= part;
    }
    ASSERT_LE(sum, usable);
  }
}

// Small alphabets, so that near-collisions and repetitions are common.
std::string text(std::mt19937_64& random) {
  constexpr std::string_view kLetters = "1:,/[@|";
  std::string text;
  for (std::uint64_t n = random() % 4; n > 0; --n) {
    text += kLetters[random() % kLetters.size()];
  }
  return text;
}

std::vector<std::string> texts(std::mt19937_64& random) {
  std::vector<std::string> list(random() % 3);
  for (std::string& item : list) {
    item = text(random);
  }
  return list;
}

RequestSpec random_spec(std::mt19937_64& random) {
  RequestSpec spec;
  spec.cpu = Milli(static_cast<std::int64_t>(random() % 2));
  for (std::uint64_t n = random() % 3; n > 0; --n) {
    DeviceAsk ask = DeviceAsk::memory_mib(1 + static_cast<std::int64_t>(random() % 2));
    ask.mig_profile = text(random);
    ask.filter.models = texts(random);
    ask.filter.avoid_uuids = texts(random);
    ask.mutex = random() % 2 == 0;
    ask.links = static_cast<LinkRule>(random() % 3);
    spec.containers.push_back(
        {"c" + text(random), static_cast<ContainerKind>(random() % 3), std::move(ask)});
  }
  spec.nodes.names = texts(random);
  if (random() % 2 == 0) {
    spec.nodes.labels.push_back(
        {text(random), static_cast<LabelRule::Op>(random() % 6), texts(random)});
  }
  if (random() % 2 == 0) {
    spec.nodes.tolerations.push_back({text(random), random() % 2 == 0, text(random), text(random)});
  }
  return spec;
}

// The hash must read every field (a field left out would make unlike requests collide), and no more
// than the fields (equal requests must find each other).
TEST(Request, HashesAreEqualWhenRequestsAreAndHardlyEverOtherwise) {
  std::mt19937_64 random(2);
  std::map<std::uint64_t, RequestSpec> by_hash;
  std::size_t repeated = 0;
  for (int i = 0; i < 50'000; ++i) {
    RequestSpec spec = random_spec(random);
    const Request request = Request::create(spec).value();
    ASSERT_EQ(request.hash(), Request::create(spec).value().hash());
    const auto [known, fresh] = by_hash.try_emplace(request.hash(), std::move(spec));
    repeated += fresh ? 0U : 1U;
    ASSERT_EQ(known->second, request.spec());
  }
  EXPECT_GT(repeated, 50U);
}

}  // namespace
}  // namespace berth::core
