#include "core/engine/decision_log.h"

#include <array>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "core/engine/log_fields.h"
#include "core/queue/queue_tree.h"

namespace berth::core {

namespace {

// What the queue tree makes of it; 0 where it makes nothing of it.
std::int64_t logged_factor(const QueueHistory& history) {
  return history.half_life.count() > 0 ? QueueTree::decay_factor(history.half_life) : 0;
}

class FieldWriter {
 public:
  explicit FieldWriter(WireWriter& wire) : wire_(wire) {}

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      wire_.number(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_unsigned_v<T>) {  // bool too
      wire_.number(value);
    } else if constexpr (std::is_integral_v<T>) {
      wire_.signed_number(value);
    } else {
      fields(*this, value);
    }
  }

  void put(const std::string& value) { wire_.text(value); }

  void put(Time value) { wire_.signed_number(value.ms()); }

  void put(const Memory& value) { wire_.signed_number(value.in_bytes()); }

  template <class Tag>
  void put(const Quantity<Tag>& value) {
    wire_.signed_number(value.count());
  }

  template <class Tag>
  void put(const Id<Tag>& value) {
    wire_.number(static_cast<std::uint32_t>(value.value() + 1));  // none is 0
  }

  template <class T>
  void put(const std::optional<T>& value) {
    wire_.number(value.has_value() ? 1 : 0);
    if (value.has_value()) {
      put(*value);
    }
  }

  template <class T>
  void put(const std::vector<T>& list) {
    wire_.number(list.size());
    for (const T& item : list) {
      put(item);
    }
  }

  void put(const std::map<std::string, std::string>& map) {
    wire_.number(map.size());
    for (const auto& [key, value] : map) {
      (*this)(key, value);
    }
  }

  void put(const Request& request) { put(request.spec()); }

  // With the factor by which past use decays: a replay that works it out otherwise must not go on
  // (queues-gangs-topology.md 4.3).
  void put(const QueueHistory& history) {
    fields(*this, history);
    wire_.signed_number(logged_factor(history));
  }

  void put(const Workload& workload) {
    (*this)(workload.uid(), workload.options());
    const bool is_gang = workload.gang() != nullptr;
    wire_.number(is_gang ? 1 : 0);
    if (is_gang) {
      put(*workload.gang());
    } else {
      put(workload.request());
    }
  }

  WireWriter& wire_;
};

class FieldReader {
 public:
  explicit FieldReader(WireReader& wire) : wire_(wire) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = wire_.bounded(1, "a yes-or-no") != 0;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(
          wire_.bounded(static_cast<std::uint64_t>(kLast<T>), "the number of a named value"));
    } else if constexpr (std::is_unsigned_v<T>) {
      value = static_cast<T>(wire_.bounded(std::numeric_limits<T>::max(), "an unsigned number"));
    } else if constexpr (std::is_integral_v<T>) {
      const std::int64_t wide = wire_.signed_number();
      if (!std::in_range<T>(wide)) {
        wire_.fail(fmt::format("{} exceeds the field's {} bits", wide, 8 * sizeof(T)));
      } else {
        value = static_cast<T>(wide);
      }
    } else {
      fields(*this, value);
    }
  }

  void get(std::string& value) { value = wire_.text(); }

  void get(Time& value) { value = Time(wire_.signed_number()); }

  void get(Memory& value) { value = Memory::bytes(wire_.signed_number()); }

  template <class Tag>
  void get(Quantity<Tag>& value) {
    value = Quantity<Tag>(wire_.signed_number());
  }

  template <class Tag>
  void get(Id<Tag>& value) {
    constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
    value = Id<Tag>(static_cast<std::uint32_t>(wire_.bounded(kMost, "an id")) - 1);
  }

  template <class T>
  void get(std::optional<T>& value) {
    if (wire_.bounded(1, "whether a value is given") != 0) {
      get(value.emplace());
    }
  }

  template <class T>
  void get(std::vector<T>& list) {
    // Grows as items arrive, since a count is only a claim.
    for (std::size_t left = wire_.count(); left > 0 && !wire_.failed(); --left) {
      get(list.emplace_back());
    }
  }

  void get(std::map<std::string, std::string>& map) {
    for (std::size_t left = wire_.count(); left > 0 && !wire_.failed(); --left) {
      std::string key;
      std::string value;
      (*this)(key, value);
      if (!wire_.failed() && !map.emplace(std::move(key), std::move(value)).second) {
        wire_.fail("a label is given twice");
      }
    }
  }

  void get(Request& request) {
    RequestSpec spec;
    get(spec);
    if (wire_.failed()) {
      return;
    }
    Result<Request> created = Request::create(std::move(spec));
    if (!created.ok()) {
      wire_.fail(created.error().message());
      return;
    }
    request = std::move(created).value();
  }

  void get(QueueHistory& history) {
    fields(*this, history);
    const std::int64_t recorded = wire_.signed_number();
    if (const std::int64_t now = logged_factor(history); !wire_.failed() && recorded != now) {
      wire_.fail(
          fmt::format("past use decayed by a factor of {} in 2^32, here it would by {}: "
                      "replay it with the release that recorded it",
                      recorded, now));
    }
  }

  void get(Group& group) {
    if (++depth_ > kMostGroupDepth) {
      wire_.fail(fmt::format("groups are nested deeper than {}", kMostGroupDepth));
    } else {
      fields(*this, group);
    }
    --depth_;
  }

  void get(Workload& workload) {
    std::string uid;
    WorkloadOptions options;
    (*this)(uid, options);
    if (wire_.bounded(1, "whether it is a gang") == 0) {
      RequestSpec spec;
      get(spec);
      Result<Request> request = Request::create(std::move(spec));
      if (!request.ok()) {
        wire_.fail(fmt::format("workload {}: {}", uid, request.error().message()));
        return;
      }
      workload = Workload::task(std::move(uid), std::move(request).value(), std::move(options));
      return;
    }
    Gang gang;
    get(gang);
    if (wire_.failed()) {
      return;
    }
    Result<Workload> created = Workload::gang(std::move(uid), std::move(gang), std::move(options));
    if (!created.ok()) {
      wire_.fail(created.error().message());
      return;
    }
    workload = std::move(created).value();
  }

  std::size_t depth_ = 0;
  WireReader& wire_;
};

Workload blank_workload() { return Workload::task("", Request()); }

// A value to read into.
template <class T>
T blank() {
  if constexpr (std::is_same_v<T, WorkloadSubmitted>) {
    return {blank_workload()};
  } else if constexpr (std::is_same_v<T, GrantAdopted>) {
    return {.workload = blank_workload(), .node = {}, .shares = {}};
  } else {
    return {};
  }
}

// Reads a tag, then the alternative of that number.
template <class Variant>
void read_variant(WireReader& wire, Variant& value, std::string_view what) {
  using Read = void (*)(FieldReader&, Variant&);
  constexpr std::size_t kSize = std::variant_size_v<Variant>;
  constexpr auto kReaders = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Read, kSize>{[](FieldReader& io, Variant& into) {
      auto alternative = blank<std::variant_alternative_t<I, Variant>>();
      fields(io, alternative);
      into = std::move(alternative);
    }...};
  }(std::make_index_sequence<kSize>());
  const std::uint64_t tag = wire.bounded(kSize - 1, what);
  if (!wire.failed()) {
    FieldReader io(wire);
    kReaders[tag](io, value);
  }
}

template <class Variant>
void write_variant(WireWriter& wire, const Variant& value) {
  wire.number(value.index());
  FieldWriter io(wire);
  std::visit([&io](const auto& alternative) { fields(io, alternative); }, value);
}

// Only a grant or a promise has places.
bool has_places(const Action& action) {
  return std::holds_alternative<Granted>(action) || std::holds_alternative<Promised>(action);
}

WorkloadId workload_of(const Action& action) {
  const auto* granted = std::get_if<Granted>(&action);
  return granted != nullptr ? granted->workload : std::get<Promised>(action).workload;
}

LoggedAction read_action(WireReader& wire) {
  LoggedAction logged;
  read_variant(wire, logged.action, "the kind of an action");
  if (has_places(logged.action) && !wire.failed()) {
    FieldReader io(wire);
    io(logged.places);
  }
  return logged;
}

void read_actions(WireReader& wire, std::vector<LoggedAction>& actions) {
  for (std::size_t left = wire.count(); left > 0 && !wire.failed(); --left) {
    actions.push_back(read_action(wire));
  }
}

// All of a block was read, and nothing but it.
Result<void> all_read(WireReader& wire, std::string_view last) {
  if (!wire.failed() && !wire.at_end()) {
    wire.fail(fmt::format("bytes follow {}", last));
  }
  if (wire.failed()) {
    return wire.error();
  }
  return success();
}

}  // namespace

void append_header(std::string& out, const EngineConfig& config) {
  out += kLogMagic;
  {
    WireWriter(out).number(kLogVersion);
  }
  WireBlock block(out);
  {
    WireWriter wire(out);
    FieldWriter io(wire);
    fields(io, config);
  }
  block.close();
}

void append_end(std::string& out) { WireBlock(out).close(); }

void append_event(std::string& out, const Event& event) {
  WireBlock block(out);
  {
    WireWriter wire(out);
    wire.signed_number(event.time.ms());
    write_variant(wire, event.body);
  }
  block.close();
}

void append_actions(std::string& out, std::span<const Action> actions, GrantFinder grants) {
  static const std::vector<ContainerGrant> kNowhere;
  WireBlock block(out);
  {
    WireWriter wire(out);
    FieldWriter io(wire);
    wire.number(actions.size());
    for (const Action& action : actions) {
      write_variant(wire, action);
      if (has_places(action)) {
        const Grant* grant =
            grants.find == nullptr ? nullptr : grants.find(grants.holder, workload_of(action));
        io(grant == nullptr ? kNowhere : grant->containers);
      }
    }
  }
  block.close();
}

Result<LogReader> LogReader::open(std::string_view log) {
  if (!log.starts_with(kLogMagic)) {
    return invalid_argument(
        fmt::format("not a decision log: it does not begin with \"{}\"", kLogMagic));
  }
  WireReader wire(log.substr(kLogMagic.size()), kLogMagic.size());
  const std::uint64_t version = wire.number();
  if (!wire.failed() && version != kLogVersion) {
    return invalid_argument(
        fmt::format("decision log of version {}; this program reads version {}: replay it with the "
                    "release that recorded it",
                    version, kLogVersion));
  }
  if (wire.failed()) {
    return wire.error();
  }
  const std::size_t start = wire.offset();
  const Result<BlockView> block = read_block(log.substr(start));
  if (!block.ok()) {
    return invalid_argument(
        fmt::format("decision log, byte {}: the header {}", start, block.error().message()));
  }
  EngineConfig config;
  WireReader in(block->bytes, start + WireBlock::kHead);
  FieldReader io(in);
  fields(io, config);
  TRY_VOID(all_read(in, "the configuration"));
  return LogReader(log, start + block->size, std::move(config));
}

Result<BlockView> LogReader::block_at(std::size_t offset) const {
  Result<BlockView> block = read_block(log_.substr(offset));
  if (block.ok()) return block;
  return invalid_argument(fmt::format("decision log, byte {}: record {} {}", offset, records_ + 1,
                                      block.error().message()));
}

Result<std::optional<LogRecord>> LogReader::next() {
  if (next_ == log_.size()) {
    return std::optional<LogRecord>();
  }
  TRY(const BlockView told, block_at(next_));
  if (told.bytes.empty()) {
    if (next_ + told.size < log_.size()) {
      return invalid_argument(
          fmt::format("decision log, byte {}: bytes follow the end mark", next_ + told.size));
    }
    ended_ = true;
    return std::optional<LogRecord>();
  }
  TRY(const BlockView answered, block_at(next_ + told.size));
  WireReader wire(told.bytes, next_ + WireBlock::kHead);
  LogRecord record{.offset = next_, .event = {Time(wire.signed_number()), {}}, .actions = {}};
  read_variant(wire, record.event.body, "the kind of an event");
  TRY_VOID(all_read(wire, "the event"));
  record.actions = log_.substr(next_ + told.size, answered.size);
  TRY_VOID(decode_actions(record.actions, next_ + told.size));
  next_ += told.size + answered.size;
  ++records_;
  return std::optional(std::move(record));
}

Result<std::vector<LoggedAction>> decode_actions(std::string_view bytes, std::size_t offset) {
  const Result<BlockView> block = read_block(bytes);
  if (!block.ok()) {
    return invalid_argument(
        fmt::format("decision log, byte {}: the answer {}", offset, block.error().message()));
  }
  WireReader wire(block->bytes, offset + WireBlock::kHead);
  std::vector<LoggedAction> actions;
  read_actions(wire, actions);
  TRY_VOID(all_read(wire, "the last action"));
  return actions;
}

}  // namespace berth::core
