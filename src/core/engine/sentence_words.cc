#include "core/engine/sentence_words.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace berth::core {

std::string named(std::string_view text, std::size_t most) {
  return shortened(printable(text), most);
}

std::int64_t mib(std::int64_t bytes) { return Memory::bytes(bytes).floor_mib(); }

std::string amount_text(const DeviceAsk& ask) {
  const std::string many =
      ask.count == 1 ? " of one GPU" : fmt::format(" of each of {} GPUs", ask.count);
  switch (ask.kind) {
    case AskKind::none: return "nothing";
    case AskKind::memory:
      return ask.count == 1 ? fmt::format("{} MiB on one GPU", ask.mib)
                            : fmt::format("{} MiB on each of {} GPUs", ask.mib, ask.count);
    case AskKind::fraction:
      return fmt::format("{}.{:03} %{}", ask.nano / 10'000'000, ask.nano / 10'000 % 1000, many);
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

std::string seconds_text(Duration duration) {
  return duration.count() % 1000 == 0 ? fmt::format("{} s", duration.count() / 1000)
                                      : fmt::format("{} ms", duration.count());
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
