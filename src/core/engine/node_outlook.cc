#include "core/engine/node_outlook.h"

#include <algorithm>
#include <array>

#include "base/assert.h"

namespace berth::core {

void take_off(DeviceFace& face, const DeviceNeed& need) {
  face.headroom = need.exclusive ? 0 : std::max<std::int64_t>(0, face.headroom - need.request);
  face.limit_room = std::max<std::int64_t>(0, face.limit_room - need.limit);
  face.nano_left = std::max(0, face.nano_left - need.nano);
  face.compute_left = static_cast<std::int16_t>(std::max(0, face.compute_left - need.compute));
  face.free_milli = static_cast<std::int16_t>(std::max(0, face.free_milli - need.milli));
  face.use = need.exclusive ? DeviceUse::whole : DeviceUse::shared;
  face.mode = need.mode;
  face.idle = false;
  ++face.grants;
}

void NodeOutlook::start(std::vector<End> ends, const Room& room) {
  ends_ = std::move(ends);
  std::ranges::sort(ends_);
  rooms_.assign(1, room);
  steps_.clear();
  first_.clear();
}

void NodeOutlook::add_freed(const Room& freed) {
  const Room& before = rooms_.back();
  rooms_.push_back({.cpu = before.cpu + freed.cpu,
                    .ram = before.ram + freed.ram,
                    .slots = before.slots + freed.slots});
}

void NodeOutlook::add_device(const DeviceFace& face) {
  first_.push_back(steps_.size());
  steps_.push_back({.ends = 0, .face = face});
}

void NodeOutlook::add_step(std::size_t end, const DeviceFace& face) {
  ASSERT(!first_.empty() && end < ends_.size() && steps_.back().ends <= end, end);
  steps_.push_back({.ends = end + 1, .face = face});
}

std::span<const NodeOutlook::Step> NodeOutlook::steps_of(std::size_t place) const {
  const std::size_t end = place + 1 < first_.size() ? first_[place + 1] : steps_.size();
  const std::size_t begin = first_[place];
  return {steps_.data() + begin, steps_.data() + end};
}

std::size_t NodeOutlook::released() const {
  const auto first =
      std::ranges::find_if(ends_, [](const End& end) { return end.at > kReleasing; });
  return static_cast<std::size_t>(first - ends_.begin());
}

const DeviceFace& NodeOutlook::face_after(std::size_t place, std::size_t ends) const {
  const std::span<const Step> steps = steps_of(place);  // few; the first is there from the start
  const Step* step = steps.data() + steps.size() - 1;
  while (step->ends > ends) {
    --step;
  }
  return step->face;
}

std::optional<std::size_t> NodeOutlook::room_for(const Shape& shape, const HeldAhead& held) const {
  const auto has_room = [&](const Room& room) {
    return (shape.cpu == 0 || room.cpu - held.cpu >= shape.cpu) &&
           (shape.ram == 0 || room.ram - held.ram >= shape.ram) && room.slots - held.slots >= 1;
  };
  const auto found = std::ranges::find_if(rooms_, has_room);
  if (found == rooms_.end()) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(found - rooms_.begin());
}

std::optional<EarliestFit> NodeOutlook::earliest(const Shape& shape, const StaticFit& fit,
                                                 const HeldAhead& held) const {
  ASSERT(shape.simple);
  const std::optional<std::size_t> room = room_for(shape, held);
  if (!room.has_value()) {
    return std::nullopt;
  }
  EarliestFit earliest{.ends = *room};
  if (!shape.wants_gpu()) {
    return earliest;
  }

  struct Choice {
    std::size_t ends = 0;
    std::int64_t left_over = 0;
    std::size_t place = 0;
  };

  std::array<Choice, 64> memory;
  std::size_t open = 0;
  const auto beside = [&](DeviceFace face, std::size_t place) {
    for (const DeviceNeed& need : held.on(place)) {
      take_off(face, need);
    }
    return face;
  };
  for (std::uint64_t left = fit.asks[0].eligible; left != 0; left &= left - 1) {
    const auto place = static_cast<std::size_t>(std::countr_zero(left));
    const DeviceNeed& need = fit.asks[0].needs[place];
    const bool alone = held.on(place).empty();
    for (const Step& step : steps_of(place)) {
      if (device_refusal(need, alone ? step.face : beside(step.face, place)) == Cause::none) {
        memory[open++] = {.ends = step.ends, .left_over = 0, .place = place};
        break;
      }
    }
  }
  const auto count = static_cast<std::size_t>(shape.ask(0).count);
  if (open < count) {
    return std::nullopt;
  }
  std::span<Choice> choices = std::span(memory).first(open);
  std::ranges::nth_element(choices, choices.begin() + static_cast<std::ptrdiff_t>(count) - 1, {},
                           &Choice::ends);
  earliest.ends = std::max(earliest.ends, choices[count - 1].ends);
  const auto late = std::ranges::remove_if(
      choices, [&](const Choice& choice) { return choice.ends > earliest.ends; });
  choices = choices.first(static_cast<std::size_t>(late.begin() - choices.begin()));
  for (Choice& choice : choices) {
    const DeviceFace& then = face_after(choice.place, earliest.ends);
    choice.left_over =
        held.on(choice.place).empty() ? then.free_milli : beside(then, choice.place).free_milli;
  }
  std::ranges::sort(choices, {},
                    [](const Choice& choice) { return std::pair(choice.left_over, choice.place); });
  for (std::size_t i = 0; i < count; ++i) {
    earliest.places |= std::uint64_t{1} << choices[i].place;
    earliest.left_over += choices[i].left_over;
  }
  return earliest;
}

}  // namespace berth::core
