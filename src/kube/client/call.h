// Caller: one call of the Kubernetes API, and what became of it.
//
//   caller.call({.method = Method::post, .path = "/api/v1/namespaces/n/pods/p/binding",
//                .body = binding, .lane = Lane::write},
//               [](const Answer& answer) {
//                 if (answer.outcome == Outcome::unknown) …   // read the pod before deciding
//               });
//
// Everything happens on the thread that drives the caller; a callback may start and cancel calls.
// Callbacks never run inside call(), stream() or cancel(). The real one is Client (client.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/quantity.h"

namespace berth::kube {

// So many readable bytes follow every text handed out here: a SIMD parser may read beyond the end.
inline constexpr std::size_t kPadding = 64;

enum class Method : std::uint8_t { get, post, put, patch, del };

enum class Content : std::uint8_t { json, strategic_merge_patch, merge_patch, json_patch };

// Each lane is a connection of its own, so that what is slow on one holds up no other.
enum class Lane : std::uint8_t { read, write, lease, watch };

// What may be done by itself when there was no good answer (429, 5xx, no connection).
enum class Retry : std::uint8_t {
  never,       // the callback hears of it and decides: bindings
  idempotent,  // up to 10 tries with back-off, as twice is as good as once: reads, patches
};

struct Call {
  Method method = Method::get;
  std::string path = {};  // with the query, encoded, from "/api…"
  std::string body = {};
  Content content = Content::json;  // of the body
  std::string accept = {};          // empty: application/json
  Lane lane = Lane::read;
  Retry retry = Retry::never;
  Duration timeout{30'000};  // of one try
  // Asked at each try right before its body leaves; false: it ends as not_sent. A lease's fence.
  std::function<bool()> may_start = {};
};

enum class Outcome : std::uint8_t {
  answered,  // with a status, whatever it says
  not_sent,  // surely nothing of it reached the server: nothing was done
  unknown,   // it was sent, or may have been, and there is no answer: it may have been done
};

struct Answer {
  Outcome outcome = Outcome::not_sent;
  int status = 0;           // of HTTP, when answered
  std::string_view body{};  // valid during the callback, kPadding bytes follow
  std::optional<Duration> retry_after{};
  std::string_view problem{};  // not answered: one sentence for people, without any secret
  // Milliseconds since boot when the try that was answered was handed to the connection.
  Time sent{};

  bool ok() const { return outcome == Outcome::answered && status >= 200 && status < 300; }
};

using Answered = std::move_only_function<void(const Answer&)>;

// A call that is answered piece by piece: watches and long lists. Never retried here.
struct StreamCall {
  std::string path = {};
  Lane lane = Lane::watch;
  Duration timeout{};  // until its end; 0: none
};

class StreamSink {
 public:
  virtual ~StreamSink() = default;
  // A piece of a 2xx answer, cut anywhere.
  virtual void on_bytes(std::string_view bytes) = 0;
  // The end, exactly once, unless cancelled. `answer.body` is that of an answer other than 2xx. A
  // broken connection after a good start is `unknown`.
  virtual void on_end(const Answer& answer) = 0;
};

// The problem of a call that may_start held back.
inline constexpr std::string_view kNotOurs =
    "the leader's lease is not held any more: nothing is written";

using CallId = std::uint64_t;

class Caller {
 public:
  virtual ~Caller() = default;
  virtual CallId call(Call call, Answered done) = 0;
  // The sink must live until its end or its cancellation.
  virtual CallId stream(StreamCall call, StreamSink& sink) = 0;
  // No callback follows. Whether it is carried out is unknown. Of one that has ended: nothing.
  virtual void cancel(CallId id) = 0;
};

// The `Status` that the API server answers with when it refuses (kubernetes-api.md 1).
struct Status {
  int code = 0;
  std::string reason = {};   // "Conflict", "Expired", …
  std::string message = {};  // a hint for people
  std::optional<Duration> retry_after{};
};

// Empty fields where the body is none; `code` is then the answer's own.
Status read_status(const Answer& answer);
// "403 Forbidden: pods is forbidden: …", "no connection to https://…: …": for logs and people.
std::string describe(const Answer& answer);

}  // namespace berth::kube
