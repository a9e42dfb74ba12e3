#include "serve/sources.h"

#include <gtest/gtest.h>

namespace berth::serve {
namespace {

// Says what it was told to.
class Told final : public gpu::Source {
 public:
  explicit Told(gpu::Report* report) : report_(report) {}
  std::string_view name() const override { return "told"; }
  gpu::Report read() override { return *report_; }

 private:
  gpu::Report* report_;
};

gpu::DeviceReport device(const std::string& uuid, std::int64_t used_mib) {
  gpu::DeviceReport report;
  report.node = "n0";
  report.device.uuid = uuid;
  report.used = Memory::mib(used_mib);
  return report;
}

class MergedSources : public testing::Test {
 protected:
  MergedSources() {
    std::vector<std::unique_ptr<gpu::Source>> sources;
    sources.push_back(std::make_unique<Told>(&driver_));
    sources.push_back(std::make_unique<Told>(&exporter_));
    merged_ = std::make_unique<MergedSource>(std::move(sources), [this] { return now_; });
  }

  gpu::Report driver_;
  gpu::Report exporter_;
  std::int64_t now_ = 1000;
  std::unique_ptr<MergedSource> merged_;
};

TEST_F(MergedSources, TakesADeviceFromTheFirstThatKnowsIt) {
  driver_.devices = {device("GPU-a", 100)};
  exporter_.devices = {device("GPU-a", 900), device("GPU-b", 200)};
  const gpu::Report report = merged_->read();
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[0].used, Memory::mib(100));
  EXPECT_EQ(report.devices[1].device.uuid, "GPU-b");
}

TEST_F(MergedSources, KeepsAndAgesWhatASilentOneSaidLast) {
  driver_.devices = {device("GPU-a", 100)};
  exporter_.devices = {device("GPU-b", 200)};
  static_cast<void>(merged_->read());
  exporter_.up = false;
  exporter_.devices.clear();
  now_ += 5000;
  const gpu::Report report = merged_->read();
  EXPECT_TRUE(report.up);
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[0].age_ms, 0);
  EXPECT_EQ(report.devices[1].age_ms, 5000);
}

TEST_F(MergedSources, PrefersTheOneThatAnswersToASilentOneThatIsBetterLiked) {
  driver_.devices = {device("GPU-a", 100)};
  exporter_.devices = {device("GPU-a", 900)};
  static_cast<void>(merged_->read());
  driver_.up = false;
  driver_.devices.clear();
  const gpu::Report report = merged_->read();
  ASSERT_EQ(report.devices.size(), 1U);
  EXPECT_EQ(report.devices[0].used, Memory::mib(900));
}

TEST_F(MergedSources, IsDownOnlyWhenNoneAnswersAndSaysOfEachWhy) {
  driver_.devices = {device("GPU-a", 100)};
  static_cast<void>(merged_->read());
  driver_.up = exporter_.up = false;
  driver_.why_down = "no driver";
  exporter_.why_down = "no exporter";
  const gpu::Report report = merged_->read();
  EXPECT_FALSE(report.up);
  EXPECT_TRUE(report.devices.empty());
  EXPECT_EQ(report.why_down, "told: no driver; told: no exporter");
}

}  // namespace
}  // namespace berth::serve
