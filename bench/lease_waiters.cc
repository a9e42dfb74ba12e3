// Two thousand clients that wait for leases, and how soon the one whose turn it is learns of it.
#include <map>
#include <string>
#include <vector>

#include "leases.h"

namespace berth::bench {

namespace {

// A thousand long polls and a thousand streams, each of another waiting lease; then one release
// after the other, each of which makes room for exactly one.
class Waiters {
 public:
  explicit Waiters(const ServeProcess& daemon)
      : daemon_(daemon),
        load_(
            daemon.token(),
            [this](int c, int status, std::string_view body) {
              if (c != 0) return woke(c);
              last_ = body;
              last_status_ = status;
            },
            [this](int c, std::string_view bytes) {
              if (bytes.find("event: granted") != std::string_view::npos) woke(c);
            }) {}

  Result<void> open(int each) {
    TRY(const int first, load_.open(daemon_.address()));
    static_cast<void>(first);
    held_ = reserve("first");
    for (int i = 0; i < 2 * each; ++i) {
      const std::string id = reserve(fmt::format("w{}", i));
      TRY(const int number, load_.open(daemon_.address()));
      lease_of_[number] = id;
      if (i < each) {
        load_.send(number, "GET", "/v1/leases/" + id + "?wait=60&version=2");
      } else {
        load_.stream(number, "/v1/leases/" + id + "/events");
      }
      settle(0);
    }
    settle(200);
    return success();
  }

  // Milliseconds until a client knows; counts what was not exactly one.
  double release_one() {
    const std::int64_t before = woken_;
    const std::int64_t begin = monotonic_ns();
    load_.send(0, "POST", "/v1/leases/" + held_ + "/release", "{}");
    while (woken_ == before && monotonic_ns() - begin < 5'000'000'000)
      load_.turn(100);
    const double ms = static_cast<double>(woken_at_ - begin) / 1e6;
    settle(3);
    if (woken_ != before + 1) ++wrong_;
    held_ = woken_lease_;
    return ms;
  }

  std::int64_t wrong() const { return wrong_; }

 private:
  void woke(int connection) {
    ++woken_;
    woken_at_ = monotonic_ns();
    woken_lease_ = lease_of_[connection];
  }

  std::string reserve(std::string_view key) {
    last_status_ = 0;
    load_.send(0, "POST", "/v1/leases", reserve_body(key, "70Gi"));
    while (last_status_ == 0)
      load_.turn(1000);
    return lease_id(last_);
  }

  void settle(int quiet_ms) {
    while (load_.turn(quiet_ms)) {
    }
  }

  const ServeProcess& daemon_;
  HttpLoad load_;
  std::map<int, std::string> lease_of_;  // by connection
  std::string held_;
  std::string last_;
  int last_status_ = 0;
  std::int64_t woken_ = 0;
  std::int64_t woken_at_ = 0;
  std::string woken_lease_;
  std::int64_t wrong_ = 0;
};

}  // namespace

Result<std::vector<Row>> measure_waiters(const Context& context) {
  TRY(const ServeProcess daemon, serve(context, "1x80GiB"));
  Waiters waiters(daemon);
  TRY_VOID(waiters.open(1000));
  const double resident = daemon.resident_mib();
  std::vector<double> times;
  for (int i = 0; i < 100; ++i)
    times.push_back(waiters.release_one());
  return std::vector<Row>{
      {.name = "waiters.1000",
       .unit = "MiB, ms",
       .figures = {{.key = "rss_mib", .value = resident, .goal = {GoalKind::at_most, 100}},
                   {.key = "wake_p99_ms",
                    .value = percentile(times, 0.99),
                    .goal = {GoalKind::at_most, 20}}},
       .also_needs = waiters.wrong() == 0}};
}

}  // namespace berth::bench
