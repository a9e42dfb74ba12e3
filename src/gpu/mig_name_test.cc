#include "gpu/mig_name.h"

#include <gtest/gtest.h>

namespace berth::gpu {
namespace {

TEST(MigName, FollowsTheSizes) {
  const Memory a100 = Memory::mib(81'920);
  EXPECT_EQ(mig_profile_name({.total = a100, .instance = Memory::mib(9728)}), "1g.10gb");
  EXPECT_EQ(mig_profile_name({.total = a100, .instance = Memory::mib(19'968)}), "2g.20gb");
  EXPECT_EQ(mig_profile_name({.total = a100, .instance = Memory::mib(40'192)}), "3g.40gb");
  EXPECT_EQ(mig_profile_name({.total = a100, .instance = Memory::mib(81'920)}), "7g.80gb");
  EXPECT_EQ(
      mig_profile_name({.total = a100, .instance = Memory::mib(40'192)}, {.gpu = 4, .compute = 4}),
      "4g.40gb");
  EXPECT_EQ(
      mig_profile_name({.total = a100, .instance = Memory::mib(40'192)}, {.gpu = 3, .compute = 1}),
      "1c.3g.40gb");
}

TEST(MigName, AnUnknownSizeStillHasAName) {
  EXPECT_EQ(mig_profile_name({.total = Memory(), .instance = Memory()}), "1g.0gb");
  EXPECT_EQ(mig_profile_name({.total = Memory::mib(81'920), .instance = Memory()}), "1g.10gb");
}

TEST(MigName, AnInstanceIsNeverMoreThanItsGpu) {
  EXPECT_EQ(mig_profile_name({.total = Memory::mib(1024), .instance = Memory::mib(999'999'999)}),
            "7g.1gb");
}

}  // namespace
}  // namespace berth::gpu
