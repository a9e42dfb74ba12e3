#include "kube/client/reflector.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/assert.h"
#include "kube/client/frames.h"

namespace berth::kube {

namespace {

constexpr Duration kShort{1'000};  // a stream that ends sooner without an event has failed
constexpr Duration kListTimeout{120'000};
constexpr int kMostFutures = 3;
constexpr Duration kBeyondDeadline{30'000};  // after the server's own end of a watch

// 0: not a number.
std::uint64_t number_of(std::string_view version) {
  std::uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(version.data(), version.data() + version.size(), number);
  return error == std::errc() && end == version.data() + version.size() ? number : 0;
}

// A uid in 16 bytes: the UUID itself, or a hash of what is none, which cannot be told again.
struct Uid {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool hashed = false;
  bool operator==(const Uid&) const = default;
};

Uid pack_uid(std::string_view text) {
  Uid uid;
  std::size_t digits = 0;
  bool hex = text.size() == 36;
  for (const char c : text) {
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    hex = hex && (value >= 0 || c == '-');
    if (value < 0) continue;
    std::uint64_t& half = digits < 16 ? uid.high : uid.low;
    half = (half << 4U) | static_cast<std::uint64_t>(value);
    ++digits;
  }
  if (hex && digits == 32) return uid;
  uid = {.high = 0xcbf29ce484222325U, .low = 0x9ae16a3b2f90404fU, .hashed = true};
  for (const char c : text) {
    uid.high = (uid.high ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    uid.low = (uid.low ^ static_cast<unsigned char>(c)) * 0x880355f21e6d1965U;
  }
  return uid;
}

std::string unpack_uid(Uid uid) {
  if (uid.hashed) return {};
  const std::string digits = fmt::format("{:016x}{:016x}", uid.high, uid.low);
  return fmt::format("{}-{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8, 4),
                     digits.substr(12, 4), digits.substr(16, 4), digits.substr(20));
}

struct Known {
  Uid uid;
  std::uint64_t version = 0;
  std::uint32_t reading = 0;  // the last one that it was seen in
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

enum class State : std::uint8_t {
  stopped,
  pausing,        // before another try
  watching_list,  // protocol A, before its bookmark
  listing,        // protocol B
  watching,
};

}  // namespace

struct Reflector::Impl final : StreamSink {
  Impl(Caller& caller_in, Timers& timers_in, Chance& chance_in, ReflectorOptions options_in,
       ObjectSink& sink_in)
      : caller(caller_in),
        timers(timers_in),
        chance(chance_in),
        options(std::move(options_in)),
        sink(sink_in),
        backoff(timers_in.clock(), chance_in),
        watch_list(options.watch_list) {}

  void start();
  void stop();
  void read_again();
  void open();
  void on_bytes(std::string_view bytes) override;
  void on_end(const Answer& answer) override;

  bool on_frame(std::string_view frame);
  bool on_bookmark(std::string_view object);
  bool on_error_frame(std::string_view object);
  bool on_object(std::string_view type, std::string_view object);
  void on_item(std::string_view object);
  void upsert(std::string_view key, const MetaHead& meta, std::string_view object);
  void remove(std::string_view key, const MetaHead& meta, std::string_view object);
  void tell(Change change, std::string_view key, std::string_view uid, std::uint64_t version,
            std::string_view object);
  void end_reading(std::string version);
  void after_good_end();
  void after_refusal(const Answer& answer);
  void lose_history(std::string_view why);
  void forget_versions();
  void pause(Duration delay);
  void fail(std::string_view why, Duration asked = {});
  void say(std::string_view what);
  std::string_view key_of(const MetaHead& meta);
  bool reading_now() const { return state == State::watching_list || state == State::listing; }

  // What a frame asks for, done when the splitter is at rest.
  enum class Then : std::uint8_t { nothing, read_again, fail };

  Caller& caller;
  Timers& timers;
  Chance& chance;
  ReflectorOptions options;
  ObjectSink& sink;
  Backoff backoff;
  State state = State::stopped;
  bool watch_list;
  bool need_reading = true;
  bool any_version = false;  // a consistent read, after the last version was refused
  Then then = Then::nothing;
  std::string why;
  std::string version;  // to resume from
  std::uint64_t version_number = 0;
  std::uint32_t reading = 0;
  CallId stream = 0;
  Timers::Id timer = 0;
  Time opened;
  bool had_event = false;
  int futures = 0;  // in a row: times that the server did not know our version yet
  FrameSplitter frames;
  std::optional<ListSplitter> list;
  std::string key;
  std::string said;
  std::unordered_map<std::string, Known, TextHash, std::equal_to<>> known;
  ReflectorFigures figures;
};

void Reflector::Impl::start() {
  if (state != State::stopped) return;
  need_reading = true;
  open();
}

void Reflector::Impl::stop() {
  state = State::stopped;
  caller.cancel(std::exchange(stream, 0));
  timers.cancel(std::exchange(timer, 0));
  figures.live = false;
}

void Reflector::Impl::read_again() {
  if (state == State::stopped) return;
  caller.cancel(std::exchange(stream, 0));
  timers.cancel(std::exchange(timer, 0));
  need_reading = true;
  any_version = true;  // a consistent read: the newest there is
  figures.synced = false;
  open();
}

void Reflector::Impl::open() {
  timer = 0;
  frames.clear();
  list.reset();
  then = Then::nothing;
  had_event = false;
  opened = timers.clock().now();
  ++figures.streams;
  std::string path = options.path + "?";
  if (!options.selector.empty()) path += options.selector + "&";
  const std::string from = any_version ? std::string() : version;
  const std::int64_t seconds =
      chance.between(options.shortest_watch, options.longest_watch).count() / 1'000;
  const std::string watch =
      fmt::format("watch=1&allowWatchBookmarks=true&timeoutSeconds={}", seconds);
  StreamCall call{.timeout = Duration(seconds * 1'000) + kBeyondDeadline};
  if (!need_reading) {
    state = State::watching;
    call.path = fmt::format("{}{}&resourceVersion={}", path, watch, version);
  } else if (++figures.readings, ++reading, watch_list) {
    state = State::watching_list;
    call.path =
        fmt::format("{}{}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", path, watch);
    if (!from.empty()) call.path += "&resourceVersion=" + from;
  } else {
    state = State::listing;
    list.emplace();
    call = {.path = path + "resourceVersion=" +
                    (any_version       ? ""
                     : version.empty() ? "0"
                                       : version),
            .lane = Lane::read,
            .timeout = kListTimeout};
  }
  figures.live = state == State::watching;
  stream = caller.stream(std::move(call), *this);
}

void Reflector::Impl::on_bytes(std::string_view bytes) {
  if (state == State::listing) {
    const Result<void> read = list->feed(bytes, [this](std::string_view item) { on_item(item); });
    if (!read.ok() && then == Then::nothing) {
      then = Then::fail;
      why = read.error().message();
    }
  } else if (!frames.feed(bytes, [this](std::string_view frame) { return on_frame(frame); }) &&
             then == Then::nothing && state != State::stopped) {
    then = Then::fail;
    why = "a frame of the watch is too large";
  }
  if (state == State::stopped || then == Then::nothing) return;
  caller.cancel(std::exchange(stream, 0));
  const Then what = std::exchange(then, Then::nothing);
  if (what == Then::read_again) {
    lose_history(why);
  } else {
    fail(why);
  }
}

// Whether to go on with the stream.
bool Reflector::Impl::on_frame(std::string_view frame) {
  const Result<FrameHead> head = read_frame_head(frame);
  if (!head.ok()) {
    then = Then::fail;
    why = head.error().message();
    return false;
  }
  had_event = true;
  if (!need_reading) said.clear();
  if (head->type == "BOOKMARK") return on_bookmark(head->object);
  if (head->type == "ERROR") return on_error_frame(head->object);
  if (head->type != "ADDED" && head->type != "MODIFIED" && head->type != "DELETED") {
    then = Then::read_again;
    why = fmt::format("a watch event of the unknown type {:?}", head->type.substr(0, 40));
    return false;
  }
  return on_object(head->type, head->object);
}

bool Reflector::Impl::on_bookmark(std::string_view object) {
  const std::string_view metadata = member_text(object, "metadata");
  const Result<MetaHead> meta = read_meta_head(object);
  if (!meta.ok() || meta->version.empty()) return true;
  const std::string_view annotations = member_text(metadata, "annotations");
  if (state == State::watching_list) {
    if (member_text(annotations, "k8s.io/initial-events-end") == "\"true\"") {
      end_reading(std::string(meta->version));
    }
    return state != State::stopped;
  }
  version = meta->version;
  version_number = number_of(version);
  return true;
}

bool Reflector::Impl::on_error_frame(std::string_view object) {
  const Answer answer{.outcome = Outcome::answered, .body = object};
  const Status status = read_status(answer);
  const bool gone = status.code == 410 || status.reason == "Expired" || status.reason == "Gone";
  then = gone ? Then::read_again : Then::fail;
  why = status.message.empty() ? "the watch ended with an error" : status.message;
  return false;
}

bool Reflector::Impl::on_object(std::string_view type, std::string_view object) {
  const Result<MetaHead> meta = read_meta_head(object);
  if (!meta.ok() || meta->name.empty() || meta->uid.empty()) {
    then = Then::fail;
    why = "an object of the watch has no name or uid";
    return false;
  }
  const std::uint64_t number = number_of(meta->version);
  if (state == State::watching) {
    // In one stream versions only rise: what is not newer is a repetition.
    if (number != 0 && version_number != 0 && number <= version_number) return true;
    version = meta->version;
    version_number = number;
  }
  ++figures.events;
  if (type == "DELETED") {
    remove(key_of(*meta), *meta, object);
  } else {
    upsert(key_of(*meta), *meta, object);
  }
  return state != State::stopped;
}

void Reflector::Impl::on_item(std::string_view object) {
  if (state != State::listing) return;  // stopped by the sink
  const Result<MetaHead> meta = read_meta_head(object);
  if (!meta.ok() || meta->name.empty() || meta->uid.empty()) {
    then = Then::fail;
    why = "an object of the list has no name or uid";
    return;
  }
  ++figures.events;
  upsert(key_of(*meta), *meta, object);
}

std::string_view Reflector::Impl::key_of(const MetaHead& meta) {
  key.clear();
  if (!meta.namespace_name.empty()) key.append(meta.namespace_name).push_back('/');
  key.append(meta.name);
  return key;
}

void Reflector::Impl::upsert(std::string_view name, const MetaHead& meta, std::string_view object) {
  const Uid uid = pack_uid(meta.uid);
  const std::uint64_t number = number_of(meta.version);
  const auto found = known.find(name);
  if (found == known.end()) {
    known.emplace(name, Known{.uid = uid, .version = number, .reading = reading});
    tell(Change::added, name, meta.uid, number, object);
    return;
  }
  Known& it = found->second;
  it.reading = reading;
  const bool comparable = number != 0 && it.version != 0;
  if (comparable && number < it.version) return;  // from a server that lags behind
  if (it.uid == uid) {
    if (comparable && number == it.version) return;
    it.version = number;
    tell(Change::modified, name, meta.uid, number, object);
    return;
  }
  const std::string old = unpack_uid(it.uid);
  it.uid = uid;
  it.version = number;
  tell(Change::deleted, name, old, number, {});
  if (state != State::stopped) tell(Change::added, name, meta.uid, number, object);
}

void Reflector::Impl::remove(std::string_view name, const MetaHead& meta, std::string_view object) {
  const auto found = known.find(name);
  if (found == known.end()) return;
  const Known it = found->second;
  const std::uint64_t number = number_of(meta.version);
  if (number != 0 && it.version != 0 && number < it.version) return;
  known.erase(found);
  if (it.uid == pack_uid(meta.uid)) {
    tell(Change::deleted, name, meta.uid, number, object);
  } else {
    tell(Change::deleted, name, unpack_uid(it.uid), number, {});
  }
}

void Reflector::Impl::tell(Change change, std::string_view name, std::string_view uid,
                           std::uint64_t number, std::string_view object) {
  figures.objects = known.size();
  sink.on_object({.change = change, .key = name, .uid = uid, .version = number, .object = object});
}

// Everything there is has been read: what was not among it is gone.
void Reflector::Impl::end_reading(std::string at) {
  version = std::move(at);
  version_number = number_of(version);
  need_reading = false;
  any_version = false;
  state = State::watching;
  std::vector<std::string> gone;
  for (const auto& [name, it] : known) {
    if (it.reading != reading) gone.push_back(name);
  }
  std::ranges::sort(gone);
  for (const std::string& name : gone) {
    const auto found = known.find(name);
    const Uid uid = found->second.uid;
    known.erase(found);
    tell(Change::deleted, name, unpack_uid(uid), version_number, {});
    if (state == State::stopped) return;
  }
  figures.live = true;
  futures = 0;
  backoff.reset();
  said.clear();
  if (!figures.synced) {
    figures.synced = true;
    sink.on_synced();
  }
}

void Reflector::Impl::on_end(const Answer& answer) {
  stream = 0;
  figures.live = false;
  if (answer.outcome != Outcome::answered) {
    const bool lived = state == State::watching && timers.clock().now() - opened >= kShort;
    if (answer.outcome == Outcome::unknown && lived) return open();
    return fail(answer.problem);
  }
  if (answer.ok()) return after_good_end();
  after_refusal(answer);
}

void Reflector::Impl::after_good_end() {
  if (state == State::listing) {
    if (!list->complete() || list->resource_version().empty()) {
      return fail("the list ended before its end");
    }
    end_reading(list->resource_version());
    if (state != State::stopped) open();
    return;
  }
  if (state == State::watching_list) return fail("the watch ended before it had told everything");
  if (!had_event && timers.clock().now() - opened < kShort) {
    return fail("the watch ended at once");
  }
  open();
}

void Reflector::Impl::after_refusal(const Answer& answer) {
  const Duration asked = read_status(answer).retry_after.value_or(Duration(0));
  if (answer.status == 410) {
    // The last version is too old even to begin with: read whatever is there now.
    if (need_reading) any_version = true;
    return lose_history(describe(answer));
  }
  if (answer.status == 504 && ++futures >= kMostFutures) return forget_versions();
  if (answer.status != 504) futures = 0;
  const bool no_such_protocol = answer.status >= 400 && answer.status < 500 &&
                                answer.status != 401 && answer.status != 403 &&
                                answer.status != 404 && answer.status != 429;
  if (no_such_protocol && state == State::watching_list) {
    watch_list = false;
    return open();
  }
  fail(describe(answer), asked);
}

// Something may have happened that nobody will tell us: everything is read anew.
void Reflector::Impl::lose_history(std::string_view reason) {
  const bool again = need_reading;
  need_reading = true;
  say(fmt::format("{} is read anew: {}", options.path, reason));
  if (!again && backoff.failures() == 0) return open();
  pause(backoff.next());
}

// The server will never reach our version: its store was put back to an earlier state. What it has
// now counts, however low its versions.
void Reflector::Impl::forget_versions() {
  futures = 0;
  version.clear();
  version_number = 0;
  for (auto& [name, it] : known)
    it.version = 0;
  any_version = true;
  lose_history("its versions are behind those seen before");
}

void Reflector::Impl::fail(std::string_view reason, Duration asked) {
  ++figures.failures;
  say(fmt::format("{} cannot be watched: {}", options.path, reason));
  pause(backoff.next(asked));
}

void Reflector::Impl::pause(Duration delay) {
  state = State::pausing;
  figures.live = false;
  timer = timers.after(delay, [this] { open(); });
}

void Reflector::Impl::say(std::string_view what) {
  if (said == what) return;
  said = what;
  sink.on_trouble(what);
}

Reflector::Reflector(Caller& caller, Timers& timers, Chance& chance, ReflectorOptions options,
                     ObjectSink& sink)
    : impl_(std::make_unique<Impl>(caller, timers, chance, std::move(options), sink)) {}

Reflector::~Reflector() { impl_->stop(); }

void Reflector::start() { impl_->start(); }
void Reflector::stop() { impl_->stop(); }
void Reflector::read_again() { impl_->read_again(); }
bool Reflector::synced() const { return impl_->figures.synced; }
ReflectorFigures Reflector::figures() const { return impl_->figures; }

}  // namespace berth::kube
