// Decision log: what an engine was told and what it answered, as bytes that replay bit for bit.
//
//   std::string log;
//   append_header(log, engine->config());
//   append_event(log, event);                              // before apply(), so that a crash names
//   it append_actions(log, engine->apply(event), *engine);
//
//   TRY(LogReader reader, LogReader::open(log));
//   for (;;) {
//     TRY(std::optional<LogRecord> record, reader.next());
//     if (!record.has_value()) break;                      // the log ends between two records
//     …
//   }
//
// Layout: kLogMagic, version, EngineConfig, then records of one event and the actions that answered
// it; the configuration, each event and each list of actions are a block with a checksum. Numbers
// are varints, signed ones zigzag, texts carry their length; the lists of fields are in
// log_fields.h. Tags are the positions in EventBody and Action, which are part of the format.
// Writing allocates nothing but the growth of the buffer. Reading trusts no byte: an error names
// the offset, and memory stays proportional to the input. Thread-safety: free functions over
// values; a LogReader belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/engine/actions.h"
#include "core/engine/engine.h"
#include "core/engine/events.h"
#include "core/engine/log_wire.h"

namespace berth::core {

inline constexpr std::string_view kLogMagic = "berthlog";
inline constexpr std::uint64_t kLogVersion = 9;

void append_header(std::string& out, const EngineConfig& config);
// The end mark, an empty block: nothing follows. A log without one was cut off between two records,
// or somebody still writes it.
void append_end(std::string& out);
void append_event(std::string& out, const Event& event);

// Where the encoder finds the grant of a workload: any holder of grants. Null when there is none.
struct GrantFinder {
  const void* holder = nullptr;
  const Grant* (*find)(const void* holder, WorkloadId workload) = nullptr;
};

// With the devices of every grant and promise that the holder has at this moment, so that a replay
// that chose another device differs.
void append_actions(std::string& out, std::span<const Action> actions, GrantFinder grants);

inline void append_actions(std::string& out, std::span<const Action> actions,
                           const Engine& engine) {
  append_actions(out, actions,
                 GrantFinder{&engine, [](const void* holder, WorkloadId workload) {
                               return static_cast<const Engine*>(holder)->grant(workload);
                             }});
}

// Without devices: for actions whose engine is not at hand.
inline void append_actions(std::string& out, std::span<const Action> actions) {
  append_actions(out, actions, GrantFinder{});
}

// An action as the log has it.
struct LoggedAction {
  Action action;
  std::vector<ContainerGrant> places;  // of a Granted or Promised, if they were recorded
};

struct LogRecord {
  std::size_t offset = 0;  // of its first byte
  Event event;
  std::string_view actions;  // their block, a part of the log given to open()
};

class LogReader {
 public:
  // Errors: not a decision log, another version, a damaged header. The log must outlive the reader.
  static Result<LogReader> open(std::string_view log);

  const EngineConfig& config() const { return config_; }
  // The end mark was read.
  bool ended() const { return ended_; }

  // Empty at the end. Errors, with the record's number and byte: the log ends inside it, it is
  // damaged; or it is whole and has an unknown tag, an absurd length, a workload that breaks a
  // rule. After an error the reader stays where it was: the records before it are good.
  Result<std::optional<LogRecord>> next();

 private:
  LogReader(std::string_view log, std::size_t next, EngineConfig config)
      : log_(log), next_(next), config_(std::move(config)) {}

  Result<BlockView> block_at(std::size_t offset) const;

  std::string_view log_;
  std::size_t next_ = 0;
  std::size_t records_ = 0;  // read so far
  bool ended_ = false;
  EngineConfig config_;
};

// The actions of one block. `offset` is that of bytes[0] in the log, for messages.
Result<std::vector<LoggedAction>> decode_actions(std::string_view bytes, std::size_t offset = 0);

}  // namespace berth::core
