// Keeper: the small process beside a running program that keeps its lease.
//
//   TRY(Keeper keeper, Keeper::start(plan));
//   … when keeper.fd() is readable: for (const KeeperNews& news : keeper.take_news()) …
//   keeper.stop();
//
// `berth run` itself stops when its user presses Ctrl-Z, and may be killed; the lease must not
// lapse by either. The keeper renews it, hears when it has to go and ends the program then (TERM,
// grace, KILL), ends it when its time is over, and tells the daemon which cgroup a container got.
// If `berth run` is gone it goes on until no process of the lease is left, and gives the lease
// back.
//
// It holds none of the program's streams, and is in a session of its own. Thread-safety: one thread
// per process; it forks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "local/files.h"

namespace berth::cli {

struct KeeperPlan {
  std::string address;
  std::string lease;
  std::string journal = {};                    // BERTH_JOURNAL_ID of the lease's environment
  std::int64_t program = 0;                    // its pid, confirmed
  Duration life{120'000};                      // T of the lease; renewed every third of it
  Duration grace{30'000};                      // between TERM and KILL
  std::optional<std::int64_t> end_at_ms = {};  // of CLOCK_BOOTTIME: the program's time is over
  std::string container_id_file = {};          // the engine writes it; empty: no container
  std::string container_engine = {};           // kills the container if it has to
};

struct KeeperNews {
  enum class Kind : std::uint8_t {
    note,     // only to be said
    leaving,  // evicted or cancelled: the program was told to end
    time,     // its time is over: the program was told to end
    lost,     // the lease is gone; the program runs on
  };
  Kind kind = Kind::note;
  std::string reason;  // of the lease: "evicted", "cancelled", "overuse", …
  std::string text;    // one line, for the user
};

// A line between the two processes, for the pipe and its tests.
std::string encode(const KeeperNews& news);
std::optional<KeeperNews> decode_news(std::string_view line);

class Keeper {
 public:
  // Errors: exhausted, unavailable (no process can be made, or the program has ended already).
  static Result<Keeper> start(const KeeperPlan& plan);

  Keeper(Keeper&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        news_(std::move(other.news_)),
        partial_(std::move(other.partial_)) {}
  Keeper& operator=(Keeper&&) = delete;
  ~Keeper() { stop(); }

  int fd() const { return news_.get(); }
  // False once it is gone without having been stopped.
  bool alive() const { return news_.valid(); }

  std::vector<KeeperNews> take_news();

  // It ends, without touching the lease.
  void stop();

 private:
  Keeper(std::int64_t pid, local::Descriptor news) : pid_(pid), news_(std::move(news)) {}

  std::int64_t pid_;
  local::Descriptor news_;
  std::string partial_;
};

}  // namespace berth::cli
