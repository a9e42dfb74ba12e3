#include "gpu/nvml_world_test_support.h"

#include <gtest/gtest.h>

namespace berth::gpu::checks {

std::string library_of(const std::string& line) {
  return std::string(BERTH_BIN_DIR) + "/../fake/" + (line.empty() ? "" : line + "/") +
         "libnvidia-ml.so.1";
}

std::unique_ptr<Source> source_on(const std::string& line, const std::int64_t* now) {
  NvmlOptions options{.node = "n1", .library = library_of(line)};
  if (now != nullptr) options.now = [now] { return Time(*now); };
  auto made = make_nvml_source(std::move(options));
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

DeviceReport look(Source& source, const std::string& uuid) {
  const Report report = source.read();
  EXPECT_TRUE(report.up) << report.why_down;
  for (const DeviceReport& device : report.devices) {
    if (device.device.uuid == uuid) return device;
  }
  ADD_FAILURE() << uuid << " is not reported";
  return {};
}

DeviceReport look(Source& source, int index) {
  const Report report = source.read();
  EXPECT_TRUE(report.up) << report.why_down;
  for (const DeviceReport& device : report.devices) {
    if (device.device.index == index && !device.device.is_mig()) return device;
  }
  ADD_FAILURE() << "GPU " << index << " is not reported";
  return {};
}

void tell(const Machine& machine, const std::vector<std::string>& words) {
  const auto ran = machine.tool(words);
  EXPECT_EQ(ran.exit, 0) << ran.err;
}

}  // namespace berth::gpu::checks
