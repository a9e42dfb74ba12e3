// A job in a folder of its own, under the real supervisor program.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "local/child_test_support.h"
#include "local/job.h"
#include "local/job_log.h"

namespace berth::local {

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): the test framework deletes it
class JobsOfATest : public testing::Test {
 protected:
  ~JobsOfATest() override {
    const JobStatus status = jobs_.status(job());
    if (status.supervised) {
      (void)jobs_.terminate(job(), Duration(0), "end of the test");
      soon([&] { return !jobs_.status(job()).supervised; });
    }
  }

  std::string job() const { return folder_.path("job"); }

  JobSpec shell(const std::string& script) const {
    return {.command = {"sh", "-c", script},
            .environment = {"PATH=/usr/bin:/bin", "BERTH_LEASE_ID=" + lease_,
                            "FOLDER=" + folder_.path()},
            .directory = "/",
            .lease = lease_,
            .grace = Duration(5000)};
  }

  JobStatus start(const JobSpec& spec) const {
    auto started = jobs_.start(job(), spec);
    EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().to_string());
    return started.ok() ? *started : JobStatus{};
  }

  JobStatus status() const { return jobs_.status(job()); }

  // The end, with nothing left and nobody who watches.
  JobStatus end() const {
    EXPECT_TRUE(soon([&] { return status().phase == JobPhase::ended && !status().supervised; }))
        << outcome_text(status());
    return status();
  }

  std::string log() const { return read_log(job(), 0, 1 << 24).bytes; }

  bool logs(const std::string& text) const {
    return soon([&] { return log().find(text) != std::string::npos; });
  }

  std::int64_t number_in(const std::string& file) const {
    std::int64_t value = 0;
    soon([&] { return std::ifstream(folder_.path(file)) >> value && value > 0; });
    return value;
  }

  TestFolder folder_;
  const Jobs jobs_{{.supervisor = BERTH_BIN_DIR "/berth-supervise"}};
  const std::string lease_ = "l-test-" + std::to_string(getpid());
};

}  // namespace berth::local
