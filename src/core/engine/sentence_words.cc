#include "core/engine/sentence_words.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace berth::core {

std::string named(std::string_view text, std::size_t most) {
  return shortened(printable(text), most);
}

namespace {

// Thousandths as a decimal: "0.5", "12".
std::string decimal_text(std::int64_t thousandths) {
  std::string text = fmt::format("{}.{:03}", thousandths / 1000, thousandths % 1000);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

}  // namespace

std::int64_t mib(std::int64_t bytes) { return Memory::bytes(bytes).floor_mib(); }

std::string amount_text(const DeviceAsk& ask) {
  const std::string many =
      ask.count == 1 ? " of one GPU" : fmt::format(" of each of {} GPUs", ask.count);
  switch (ask.kind) {
    case AskKind::none: return "nothing";
    case AskKind::memory:
      return ask.count == 1 ? fmt::format("{} MiB on one GPU", ask.mib)
                            : fmt::format("{} MiB on each of {} GPUs", ask.mib, ask.count);
    case AskKind::fraction: return fmt::format("{} %{}", decimal_text(ask.nano / 10'000), many);
    case AskKind::replica: return "one replica part of a GPU";
    case AskKind::whole:
      return ask.count == 1 ? std::string("one whole GPU")
                            : fmt::format("{} whole GPUs of one node", ask.count);
    case AskKind::mig:
      return fmt::format("{} MIG instance{} {}", ask.count, ask.count == 1 ? "" : "s",
                         named(ask.mig_profile, 24));
  }
  return "";
}

std::string cores_text(std::int64_t milli) {
  return milli % 1000 == 0 ? fmt::format("{}", milli / 1000)
                           : fmt::format("{}.{:03}", milli / 1000, milli % 1000);
}

// Exact while it is short, and two units when it is long: "250 ms", "90 s", "12 min 30 s", "22 h 54
// min", "3 d 4 h".
std::string time_text(Duration duration) {
  constexpr std::int64_t kMsPerSecond = 1000;
  constexpr std::int64_t kPerMinute = 60;
  constexpr std::int64_t kPerHour = 60 * kPerMinute;
  constexpr std::int64_t kPerDay = 24 * kPerHour;
  const auto two = [](std::int64_t big, std::string_view unit, std::int64_t small,
                      std::string_view below) {
    return small == 0 ? fmt::format("{} {}", big, unit)
                      : fmt::format("{} {} {} {}", big, unit, small, below);
  };
  const std::int64_t seconds = duration.count() / kMsPerSecond;
  if (seconds < 10 && duration.count() % kMsPerSecond != 0) {
    return fmt::format("{} ms", duration.count());
  }
  if (seconds < 2 * kPerMinute) return fmt::format("{} s", seconds);
  if (seconds < 2 * kPerHour) return two(seconds / kPerMinute, "min", seconds % kPerMinute, "s");
  if (seconds < 2 * kPerDay) {
    return two(seconds / kPerHour, "h", seconds % kPerHour / kPerMinute, "min");
  }
  return two(seconds / kPerDay, "d", seconds % kPerDay / kPerHour, "h");
}

std::string quota_text(std::int64_t amount, std::string_view dimension) {
  if (dimension.ends_with("/memory")) {
    return fmt::format("{} MiB", amount);
  }
  if (!dimension.ends_with("/devices")) {
    return fmt::format("{}", amount);
  }
  return decimal_text(amount);
}

std::string plural(std::int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string_view mode_name(SharingMode mode) {
  return mode == SharingMode::sm_sharing ? "sm-sharing" : "time-slicing";
}

std::string label_text(const LabelRule& rule) {
  std::string values;
  for (const std::string& value : rule.values) {
    values += (values.empty() ? "" : ", ") + value;
  }
  switch (rule.op) {
    case LabelRule::Op::in:
      return rule.values.size() == 1 ? fmt::format("{}={}", rule.key, values)
                                     : fmt::format("{} in ({})", rule.key, values);
    case LabelRule::Op::not_in: return fmt::format("{} not in ({})", rule.key, values);
    case LabelRule::Op::exists: return rule.key;
    case LabelRule::Op::does_not_exist: return "!" + rule.key;
    case LabelRule::Op::greater: return fmt::format("{} > {}", rule.key, values);
    case LabelRule::Op::less: return fmt::format("{} < {}", rule.key, values);
  }
  return rule.key;
}

}  // namespace berth::core
