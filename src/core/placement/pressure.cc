#include "core/placement/pressure.h"

namespace berth::core {
namespace {

// U h of section 5.8 for one resource.
std::int64_t stranded_by_definition(std::span<const std::int64_t> h, std::int64_t value, int step,
                                    std::int64_t have) {
  const Int128 numerator = Int128{std::max<std::int64_t>(have, 0)} * kOneInP;
  const Int128 denominator = Int128{std::max<std::int64_t>(value, 1)} * step;
  const Int128 last = static_cast<Int128>(h.size()) - 2;
  Int128 index = numerator / denominator;
  Int128 rest = numerator % denominator;
  if (index >= last) {
    index = last;
    rest = 0;
  }
  const Int128 here = h[static_cast<std::size_t>(index)];
  const Int128 next = h[static_cast<std::size_t>(index) + 1];
  const Int128 between = here - (here - next) * rest / denominator;
  return static_cast<std::int64_t>(Int128{value} * between / kOneInP);
}

}  // namespace

Int128 weighted_square_of_missing_share(const NeedAtPoint& at) {
  if (at.need <= at.have) return 0;
  const Int128 missing = Int128{at.need} - at.have;
  Int128 share = Int128{at.gpu_milli} * kOneInP;
  share = share * missing / at.need;
  share = share * missing / at.need;
  return share;
}

PressureTable::PressureTable(const ClassCounts& counts) {
  if (!counts.has_gpu_work()) return;
  std::vector<ClassNeed> cpu_needs;
  std::vector<ClassNeed> memory_needs;
  for (const WorkClass& work : counts.classes()) {
    if (work.is_cpu_only()) continue;
    ClassNeed need{.gpu_milli_of_all = work.gpu_milli_of_all(),
                   .gpu_milli_per_pod = work.gpu_milli_per_pod(),
                   .request = work.cpu_milli};
    cpu_needs.push_back(need);
    need.request = work.memory_mib;
    memory_needs.push_back(need);
  }
  cpu_ = tabulate(cpu_needs, kCpuStep);
  memory_ = tabulate(memory_needs, kMemoryStep);
}

PressureTable::Curve PressureTable::tabulate(const std::vector<ClassNeed>& needs, int step) {
  std::int64_t total_gpu_milli = 0;
  for (const ClassNeed& need : needs)
    total_gpu_milli += need.gpu_milli_of_all;

  Curve curve;
  for (int point = 0; point < kPoints; ++point) {
    Int128 sum = 0;
    for (const ClassNeed& need : needs) {
      sum += weighted_square_of_missing_share(
          {.gpu_milli = need.gpu_milli_of_all,
           .need = 1000 * need.request,
           .have = std::int64_t{point} * step * need.gpu_milli_per_pod});
    }
    curve.h[static_cast<std::size_t>(point)] = static_cast<std::int64_t>(sum / total_gpu_milli);
  }

  // Every look-up beyond the last interval reads its first point (index 1999, rest 0).
  constexpr int kLastInterval = kPoints - 2;
  auto* const first_zero = std::find(curve.h.begin(), curve.h.end(), 0);
  curve.flat_from = std::min(static_cast<int>(first_zero - curve.h.begin()), kLastInterval);
  curve.flat_h = curve.h[static_cast<std::size_t>(curve.flat_from)];
  return curve;
}

std::int64_t PressureTable::pressure_by_definition(const NodeRoom& room) const {
  const std::int64_t value = std::clamp<std::int64_t>(room.value, 0, kMostValue);
  return 3 * stranded_by_definition(cpu_.h, value, kCpuStep, room.cpu_milli) +
         3 * stranded_by_definition(memory_.h, value, kMemoryStep, room.memory_mib);
}

}  // namespace berth::core
