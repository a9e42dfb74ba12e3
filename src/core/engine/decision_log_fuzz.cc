// Any bytes: records or an error that names a byte; what was read can be written and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "core/engine/decision_log.h"

namespace {

using berth::core::decode_actions;
using berth::core::LogReader;
using berth::core::LogRecord;

std::string header() {
  std::string log;
  append_header(log, berth::core::EngineConfig{});
  return log;
}

void check_again(const LogRecord& record) {
  static const std::string kHeader = header();
  std::string log = kHeader;
  append_event(log, record.event);
  log += record.actions;
  auto reader = LogReader::open(log);
  ASSERT(reader.ok());
  const auto again = reader->next();
  ASSERT(again.ok() && again->has_value());
  ASSERT((*again)->event == record.event);
  const auto actions = decode_actions(record.actions, record.offset);
  ASSERT(actions.ok());
}

void read_all(std::string_view log) {
  auto reader = LogReader::open(log);
  if (!reader.ok()) {
    return;
  }
  for (;;) {
    const auto record = reader->next();
    if (!record.ok()) {
      ASSERT(record.error().message().starts_with("decision log, byte "), record.error().message());
      return;
    }
    if (!record->has_value()) {
      return;
    }
    check_again(**record);
  }
}

// A whole record of these bytes: the first says how many are the event, the rest is the answer.
// Checksums would keep a fuzzer out of all that
// lies behind them.
std::string sealed(std::string_view bytes) {
  const std::size_t cut =
      bytes.empty() ? 0
                    : std::min<std::size_t>(static_cast<unsigned char>(bytes[0]), bytes.size() - 1);
  bytes.remove_prefix(bytes.empty() ? 0 : 1);
  std::string record;
  for (const std::string_view part : {bytes.substr(0, cut), bytes.substr(cut)}) {
    berth::core::WireBlock block(record);
    record += part;
    block.close();
  }
  return record;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// The first byte chooses: a good header before the bytes, the bytes as one whole record, or the
// bytes alone.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string kHeader = header();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size > 0 && (bytes.front() & 1) != 0) {
    read_all(kHeader + std::string(bytes.substr(1)));
  } else if (size > 0 && (bytes.front() & 2) != 0) {
    read_all(kHeader + sealed(bytes.substr(1)));
  } else {
    read_all(bytes);
  }
  return 0;
}
