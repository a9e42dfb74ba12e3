#include "core/engine/decision_log.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <variant>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/engine/random_values_test.h"

namespace berth::core {
namespace {

constexpr std::size_t kEventKinds = std::variant_size_v<EventBody>;
constexpr std::size_t kActionKinds = std::variant_size_v<Action>;

std::string header() {
  std::string log;
  append_header(log, EngineConfig{});
  return log;
}

// A record whose event has these bytes, and no answer: whole, whatever it says.
std::string whole_record(std::string_view event) {
  std::string record;
  WireBlock block(record);
  record += event;
  block.close();
  append_actions(record, {});
  return record;
}

// One grant, as a holder of grants would give it to the encoder.
GrantFinder finder_of(const Grant& grant) {
  return {&grant, [](const void* holder, WorkloadId) { return static_cast<const Grant*>(holder); }};
}

// A log of `records` random records, each event kind in turn.
std::string random_log(RandomValues& random, std::size_t records) {
  std::string log;
  append_header(log, random.config());
  for (std::size_t i = 0; i < records; ++i) {
    append_event(log, random.event(i % kEventKinds));
    std::vector<Action> actions;
    for (std::int64_t n = random.below(4); n > 0; --n) {
      actions.push_back(random.action(static_cast<std::size_t>(random.below(kActionKinds))).action);
    }
    append_actions(log, actions);
  }
  return log;
}

// Reads to the end or the first error; records read, or the error.
Result<std::size_t> read_all(std::string_view log) {
  TRY(LogReader reader, LogReader::open(log));
  for (std::size_t records = 0;; ++records) {
    TRY(const std::optional<LogRecord> record, reader.next());
    if (!record.has_value()) {
      return records;
    }
    EXPECT_TRUE(decode_actions(record->actions, record->offset).ok());
  }
}

TEST(DecisionLog, IsReadAsItWasWritten) {
  std::string log;
  EngineConfig config;
  config.policy = "spread";
  append_header(log, config);
  append_event(log, Event{Time(5), WorkloadCancelled{"job-7"}});
  append_actions(log, std::vector<Action>{Ended{WorkloadId(3u), Cause::none}, WakeAt{Time(90)}});
  append_event(log, Event{Time(6), TimeReached{}});
  append_actions(log, {});

  const Result<LogReader> opened = LogReader::open(log);
  ASSERT_TRUE(opened.ok());
  LogReader reader = opened.value();
  EXPECT_EQ(reader.config(), config);

  const auto first = reader.next();
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_EQ((*first)->event, (Event{Time(5), WorkloadCancelled{"job-7"}}));
  const auto actions = decode_actions((*first)->actions);
  ASSERT_TRUE(actions.ok());
  ASSERT_EQ(actions->size(), 2u);
  EXPECT_EQ((*actions)[0].action, Action(Ended{WorkloadId(3u), Cause::none}));
  EXPECT_EQ((*actions)[1].action, Action(WakeAt{Time(90)}));

  const auto second = reader.next();
  ASSERT_TRUE(second.ok() && second->has_value());
  EXPECT_EQ((*second)->event, (Event{Time(6), TimeReached{}}));
  const auto end = reader.next();
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
}

RC_GTEST_PROP(DecisionLog, BringsBackEveryKindOfEvent, (std::uint64_t seed)) {
  RandomValues random(seed);
  for (std::size_t kind = 0; kind < kEventKinds; ++kind) {
    const Event event = random.event(kind);
    RC_ASSERT(event.body.index() == kind);
    std::string log = header();
    append_event(log, event);
    append_actions(log, {});
    LogReader reader = LogReader::open(log).value();
    const auto record = reader.next();
    RC_ASSERT(record.ok());
    RC_ASSERT(record->has_value());
    RC_ASSERT((*record)->event == event);
    RC_ASSERT(!reader.next().value().has_value());
  }
}

RC_GTEST_PROP(DecisionLog, BringsBackEveryKindOfActionAndTheDevicesOfGrants, (std::uint64_t seed)) {
  RandomValues random(seed);
  for (std::size_t kind = 0; kind < kActionKinds; ++kind) {
    const LoggedAction action = random.action(kind);
    RC_ASSERT(action.action.index() == kind);
    Grant grant;
    grant.containers = action.places;
    std::string bytes;
    append_actions(bytes, std::vector<Action>(3, action.action), finder_of(grant));
    const auto decoded = decode_actions(bytes);
    RC_ASSERT(decoded.ok());
    RC_ASSERT(decoded->size() == 3u);
    for (const LoggedAction& again : *decoded) {
      RC_ASSERT(again.action == action.action);
      RC_ASSERT(again.places == action.places);
    }
  }
}

RC_GTEST_PROP(DecisionLog, BringsBackTheConfiguration, (std::uint64_t seed)) {
  const EngineConfig config = RandomValues(seed).config();
  std::string log;
  append_header(log, config);
  RC_ASSERT(LogReader::open(log).value().config() == config);
}

TEST(DecisionLog, EveryTruncationIsAnErrorThatNamesAByteOrEndsBetweenRecords) {
  RandomValues random(7);
  const std::string log = random_log(random, 2 * kEventKinds);
  ASSERT_EQ(read_all(log).value(), 2 * kEventKinds);
  std::size_t clean_ends = 0;
  for (std::size_t length = 0; length < log.size(); ++length) {
    const auto records = read_all(std::string_view(log).substr(0, length));
    if (records.ok()) {
      ++clean_ends;
    } else if (length >= kLogMagic.size()) {
      EXPECT_TRUE(records.error().message().starts_with("decision log, byte "))
          << records.error().message();
    }
  }
  EXPECT_EQ(clean_ends, 2 * kEventKinds);  // after the header and after each record but the last
}

TEST(DecisionLog, EveryFlippedBitIsSeenAndSaidOfItsRecord) {
  RandomValues random(11);
  const std::string log = random_log(random, kEventKinds);
  const LogReader whole = LogReader::open(log).value();
  std::size_t damaged = 0;
  for (std::size_t bit = 8 * kLogMagic.size(); bit < 8 * log.size(); ++bit) {
    std::string flipped = log;
    char& byte = flipped[bit / 8];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << (bit % 8)));
    const auto read = read_all(flipped);
    ASSERT_FALSE(read.ok()) << "bit " << bit;
    damaged +=
        read.error().message().ends_with("is damaged: its checksum does not match") ? 1U : 0U;
  }
  EXPECT_GT(damaged, 7 * log.size());  // the others hit a length or the version
}

TEST(DecisionLog, SaysWhetherItWasWrittenToItsEnd) {
  std::string log = header();
  append_event(log, Event{Time(1), NodeRemoved{"n1"}});
  append_actions(log, {});
  const auto ended = [](std::string_view bytes) {
    LogReader reader = LogReader::open(bytes).value();
    EXPECT_TRUE(reader.next().value().has_value());
    EXPECT_FALSE(reader.next().value().has_value());
    return reader.ended();
  };
  EXPECT_FALSE(ended(log));
  append_end(log);
  EXPECT_TRUE(ended(log));
  append_event(log, Event{Time(2), TimeReached{}});
  LogReader reader = LogReader::open(log).value();
  ASSERT_TRUE(reader.next().ok());
  EXPECT_TRUE(reader.next().error().message().ends_with("bytes follow the end mark"));
}

TEST(DecisionLog, SaysWhichRecordIsDamaged) {
  std::string log = header();
  for (int i = 1; i <= 3; ++i) {
    append_event(log, Event{Time(i), NodeRemoved{"node-" + std::to_string(i)}});
    append_actions(log, {});
  }
  const std::size_t at = log.find("node-2");
  log[at] = 'N';
  LogReader reader = LogReader::open(log).value();
  ASSERT_TRUE(reader.next().value().has_value());
  const auto broken = reader.next();
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().message(), "decision log, byte " + std::to_string(at - 11) +
                                          ": record 2 is damaged: its checksum does not match");
}

// The checksum and the layout of a block are part of the format.
TEST(DecisionLog, ABlockHasTheSameBytesOnEveryMachine) {
  EXPECT_EQ(checksum(""), 0x084ea4b7U);
  EXPECT_EQ(checksum("berth"), 0x8978913cU);
  EXPECT_EQ(checksum("decision log"), 0x60d405ceU);
  EXPECT_NE(checksum(std::string(8, '\0')), checksum(std::string(7, '\0')));
}

TEST(DecisionLog, AnErrorLeavesTheRecordsBeforeItGood) {
  std::string log = header();
  append_event(log, Event{Time(1), NodeRemoved{"n1"}});
  append_actions(log, {});
  append_event(log, Event{Time(2), NodeRemoved{"n2"}});  // and then the power went
  LogReader reader = LogReader::open(log).value();
  ASSERT_TRUE(reader.next().value().has_value());
  for (int i = 0; i < 2; ++i) {
    const auto broken = reader.next();
    ASSERT_FALSE(broken.ok());
    EXPECT_EQ(broken.error().message(), "decision log, byte " + std::to_string(log.size()) +
                                            ": record 2 is cut off: 0 bytes are left");
  }
}

TEST(DecisionLog, RefusesWhatIsNotALog) {
  EXPECT_EQ(LogReader::open("").error().message(),
            "not a decision log: it does not begin with \"berthlog\"");
  EXPECT_FALSE(LogReader::open("time,event\n1,submit\n").ok());
  EXPECT_EQ(LogReader::open("berthlog\x01").error().message(),
            "decision log of version 1; this program reads version 9: replay it with the release "
            "that recorded it");
  EXPECT_EQ(LogReader::open("berthlog").error().message(),
            "decision log, byte 8: the log ends inside a number");
}

// queues-gangs-topology.md 4.3: the factor is worked out once and written down.
TEST(DecisionLog, HoldsTheFactorOfDecayAndRefusesAnotherOne) {
  QueueSpec queue;
  queue.name = "a";
  queue.history = QueueHistory{.half_life = Duration(60'000), .k = 1000};
  std::string log = header();
  append_event(log, {Time(1), QueuesChanged{{.queues = {queue}}}});
  append_actions(log, {});
  EXPECT_EQ(read_all(log).value(), 1U);
  std::string event(read_block(std::string_view(log).substr(header().size()))->bytes);
  // 2^31 (half of it goes in a minute), as a signed varint.
  const std::size_t at = event.find("\x80\x80\x80\x80\x10");
  ASSERT_NE(at, std::string::npos);
  event[at] = static_cast<char>(0x82);
  const Result<std::size_t> other = read_all(header() + whole_record(event));
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message().find(
                "past use decayed by a factor of 2147483649 in 2^32, here it would by 2147483648"),
            std::string::npos)
      << other.error().message();
}

TEST(DecisionLog, RefusesAnUnknownTag) {
  const std::string log = header() + whole_record("\x02\x7F");
  LogReader reader = LogReader::open(log).value();
  EXPECT_EQ(reader.next().error().message(),
            "decision log, byte " + std::to_string(header().size() + WireBlock::kHead + 1) +
                ": the kind of an event is 127; the largest known is 18");
}

TEST(DecisionLog, RefusesALengthThatTheInputCannotHold) {
  // A removed node whose name claims 2^40 bytes.
  const std::string log = header() + whole_record("\x02\x01\x80\x80\x80\x80\x80\x20");
  LogReader reader = LogReader::open(log).value();
  EXPECT_EQ(reader.next().error().message(),
            "decision log, byte " + std::to_string(header().size() + WireBlock::kHead + 2) +
                ": a length of 1099511627776 where 0 bytes are left");
}

TEST(DecisionLog, RefusesANumberOfMoreThan64Bits) {
  const std::string log = header() + whole_record(std::string(9, '\xFF') + "\x02");
  LogReader reader = LogReader::open(log).value();
  EXPECT_EQ(reader.next().error().message(),
            "decision log, byte " + std::to_string(header().size() + WireBlock::kHead) +
                ": a number exceeds 64 bits");
}

TEST(DecisionLog, RefusesAWorkloadThatBreaksARule) {
  RequestSpec spec;
  spec.containers.push_back(
      {.name = "main", .kind = ContainerKind::app, .gpu = DeviceAsk::memory_mib(4096)});
  std::string event;
  append_event(event, Event{Time(1), WorkloadSubmitted{Workload::task(
                                         "job", Request::create(std::move(spec)).value())}});
  event.erase(0, WireBlock::kHead);
  const std::size_t at = event.find(std::string("\x80\x40", 2));  // 4096, zigzag
  ASSERT_NE(at, std::string::npos);
  event[at + 1] = '\0';  // 0 MiB
  const std::string log = header() + whole_record(event);
  LogReader reader = LogReader::open(log).value();
  const auto record = reader.next();
  ASSERT_FALSE(record.ok());
  EXPECT_NE(record.error().message().find(
                "workload job: container main: GPU memory (MiB) is 0; it must lie between 1"),
            std::string::npos)
      << record.error().message();
}

TEST(DecisionLog, EncodesASubmitAndItsGrantWithoutAllocating) {
  RequestSpec spec;
  spec.cpu = Milli(4000);
  spec.ram = Memory::mib(16384);
  spec.containers.push_back(
      {.name = "main", .kind = ContainerKind::app, .gpu = DeviceAsk::memory_mib(4096)});
  const Event event{Time(1'700'000'000'000),
                    WorkloadSubmitted{Workload::task("namespace/training-job-000017",
                                                     Request::create(std::move(spec)).value())}};
  Grant grant;
  grant.containers = {{0, {{DeviceId(7u), 4096, 4096}}}};
  const std::vector<Action> actions{Granted{WorkloadId(3u), 17, NodeId(2u)}};

  std::string log;
  log.reserve(1 << 20);
  const char* const place = log.data();
  constexpr std::size_t kRounds = 1000;
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (int repetition = 0; repetition < 20; ++repetition) {
    log.clear();
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < kRounds; ++i) {
      append_event(log, event);
      append_actions(log, actions, finder_of(grant));
    }
    best = std::min(best, (std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_EQ(log.data(), place);
  EXPECT_LT(log.size() / kRounds, 130u);
  const auto nanos = best / static_cast<std::int64_t>(kRounds);
  RecordProperty("nanos_per_record", std::to_string(nanos));
  EXPECT_LT(nanos, 20'000);  // a guard against the absurd; optimised builds take about a hundred
}

}  // namespace
}  // namespace berth::core
