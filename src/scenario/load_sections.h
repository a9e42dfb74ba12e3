// The sections of a load, defined in read_load.cc and read_stream.cc. Inside the room only.
#pragma once

#include <vector>

#include "scenario/load.h"
#include "scenario/sections.h"

namespace berth::scenario {

struct StreamDraft {
  LoadStream stream;
  std::vector<const yaml::Entry*> words{};
  std::vector<std::string_view> arrivals{};  // kinds that were given
  std::vector<std::string_view> runs{};
};

const Section<Load>& load_section();
const Section<StreamDraft>& stream_section();
const Section<StreamDraft>& arrivals_section();
const Section<PoissonArrivals>& poisson_section();
const Section<BurstArrivals>& bursts_section();
const Section<StreamDraft>& run_section();
const Section<LognormalRun>& lognormal_section();
const Section<UniformRun>& uniform_section();
const Section<GangShape>& gang_shape_section();

// The sections above, in the order in which the reference shows them.
std::vector<SectionDoc> load_sections();

Result<void> read_load(const Value& value, Load& load);
Result<LoadStream> read_stream(const Value& value);
// A day of the week: `mon` … `sun`.
Result<std::size_t> read_day(const Value& value);

}  // namespace berth::scenario
