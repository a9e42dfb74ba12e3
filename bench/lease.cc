// What leases cost: the daemon as users run it, with its state on the disk of the work tree, asked
// over loopback. The rows are named as the issue of the single machine names them.
#include <SQLiteCpp/SQLiteCpp.h>
#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "core/engine/engine.h"
#include "http_load.h"
#include "leases.h"
#include "scenario/fleet_spec.h"
#include "suite.h"

namespace berth::bench {

namespace {

// Clients that reserve, confirm and release, each one after the other.
struct Cycles {
  std::int64_t done = 0;
  std::int64_t failed = 0;
  double seconds = 0;
};

Result<Cycles> run_cycles(const ServeProcess& daemon, int clients, std::int64_t most) {
  struct Client {
    int step = 0;
    std::string id;
  };
  std::vector<Client> states(static_cast<std::size_t>(clients));
  Cycles cycles;
  static std::int64_t next_key = 0;  // no key twice: a known one is answered from memory
  HttpLoad* load = nullptr;
  const auto begin_cycle = [&](int c) {
    states[static_cast<std::size_t>(c)].step = 0;
    load->send(c, "POST", "/v1/leases", reserve_body(fmt::format("k{}", ++next_key), "256"));
  };
  HttpLoad made(daemon.token(), [&](int c, int status, std::string_view body) {
    Client& client = states[static_cast<std::size_t>(c)];
    if (client.step == 0) {
      if (status != 201) ++cycles.failed;
      client.id = lease_id(body);
      client.step = 1;
      load->send(c, "POST", "/v1/leases/" + client.id + "/confirm", "{}");
    } else if (client.step == 1) {
      if (status != 200) ++cycles.failed;
      client.step = 2;
      load->send(c, "POST", "/v1/leases/" + client.id + "/release", "{}");
    } else {
      if (status != 200) ++cycles.failed;
      ++cycles.done;
      begin_cycle(c);
    }
  });
  load = &made;
  for (int c = 0; c < clients; ++c) {
    TRY_VOID([&]() -> Result<void> {
      TRY(const int number, made.open(daemon.address()));
      static_cast<void>(number);
      return success();
    }());
  }
  const std::int64_t begin = monotonic_ns();
  for (int c = 0; c < clients; ++c)
    begin_cycle(c);
  while (cycles.done < most)
    made.turn(1000);
  cycles.seconds = static_cast<double>(monotonic_ns() - begin) / 1e9;
  return cycles;
}

// What the journal was given, by the daemon's own count.
struct Written {
  double commits = 0;
  double rows = 0;
  double bytes = 0;
};

Result<Written> written_by(const ServeProcess& daemon) {
  std::string page;
  HttpLoad load(daemon.token(), [&](int, int, std::string_view body) { page = body; });
  TRY(const int connection, load.open(daemon.address()));
  load.send(connection, "GET", "/metrics");
  while (page.empty())
    load.turn(1000);
  const auto figure = [&](std::string_view name) {
    const std::size_t at = page.find(fmt::format("\n{} ", name));
    return at == std::string::npos ? 0.0 : std::stod(page.substr(at + name.size() + 2));
  };
  return Written{figure("berth_journal_commits_total"), figure("berth_journal_rows_total"),
                 figure("berth_journal_bytes_total")};
}

// The same bytes, pragmas and grouping without anything around: what the disk and SQLite allow, in
// rows a second.
Result<double> bare_sqlite_per_s(const std::string& folder, double group, std::size_t bytes,
                                 std::int64_t commits) {
  try {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    SQLite::Database db(folder + "/bare.sqlite", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("PRAGMA journal_mode=WAL");
    db.exec("PRAGMA synchronous=FULL");
    db.exec("CREATE TABLE t(seq INTEGER PRIMARY KEY, kind TEXT, id TEXT, body BLOB)");
    SQLite::Statement insert(db, "INSERT INTO t(kind,id,body) VALUES('lease',?,?)");
    const std::string body(bytes, 'x');
    const std::int64_t begin = monotonic_ns();
    std::int64_t rows = 0;
    for (std::int64_t i = 1; i <= commits; ++i) {
      SQLite::Transaction transaction(db);
      for (const auto until = static_cast<std::int64_t>(static_cast<double>(i) * group);
           rows < until; ++rows) {
        insert.bind(1, fmt::format("l-{}", rows));
        insert.bindNoCopy(2, body.data(), static_cast<int>(body.size()));
        insert.exec();
        insert.reset();
      }
      transaction.commit();
    }
    return static_cast<double>(rows) / (static_cast<double>(monotonic_ns() - begin) / 1e9);
  } catch (const std::exception& error) {
    return Error(ErrorCode::unavailable, error.what());
  }
}

Result<std::vector<Row>> measure_cycle(const Context& context) {
  TRY(const ServeProcess daemon, serve(context, "16x80GiB"));
  TRY_VOID(run_cycles(daemon, 16, 500).ok() ? success()
                                            : Error(ErrorCode::unavailable, "no cycle"));
  std::vector<double> rates;
  std::vector<double> shares;
  std::int64_t failed = 0;
  for (int i = 0; i < std::max(context.repetitions, 3); ++i) {
    TRY(const Written before, written_by(daemon));
    TRY(const Cycles cycles, run_cycles(daemon, 16, 3000));
    TRY(const Written after, written_by(daemon));
    failed += cycles.failed;
    const double rate = static_cast<double>(cycles.done) / cycles.seconds;
    const double rows = after.rows - before.rows;
    TRY(const double bare,
        bare_sqlite_per_s("build/bench-sqlite", rows / (after.commits - before.commits),
                          static_cast<std::size_t>((after.bytes - before.bytes) / rows), 500));
    rates.push_back(rate);
    shares.push_back(rows / cycles.seconds / bare);
  }
  std::filesystem::remove_all("build/bench-sqlite");
  return std::vector<Row>{{.name = "lease.cycle_per_s",
                           .unit = "1/s",
                           .figures = {best_high("", rates, {GoalKind::at_least, 3000})},
                           .also_needs = failed == 0},
                          {.name = "lease.vs_sqlite",
                           .unit = "share",
                           .figures = {best_high("", shares, {GoalKind::at_least, 0.5})},
                           .also_needs = failed == 0}};
}

// One fdatasync of a small append, in ms: the 99th of a hundred.
double fdatasync_p99_ms() {
  std::vector<double> times;
  const std::string path = "build/bench-fdatasync";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string bytes(4096, 'x');
  for (int i = 0; i < 300; ++i) {
    const std::int64_t begin = monotonic_ns();
    if (write(fd, bytes.data(), bytes.size()) < 0 || fdatasync(fd) != 0) break;
    times.push_back(static_cast<double>(monotonic_ns() - begin) / 1e6);
  }
  close(fd);
  std::filesystem::remove(path);
  return percentile(times, 0.99);
}

Result<std::vector<Row>> measure_reserve(const Context& context) {
  TRY(const ServeProcess daemon, serve(context, "16x80GiB"));
  constexpr int kClients = 32;
  constexpr int kRequests = 3000;
  const std::int64_t period = 1'000'000'000 / 500;
  std::vector<std::int64_t> sent(kClients, 0);
  std::vector<std::string> ids(kClients);
  std::vector<bool> reserving(kClients, false);
  std::vector<bool> busy(kClients, false);
  std::vector<double> times;
  std::int64_t failed = 0;
  HttpLoad* load = nullptr;
  HttpLoad made(daemon.token(), [&](int c, int status, std::string_view body) {
    const auto at = static_cast<std::size_t>(c);
    if (reserving[at]) {
      times.push_back(static_cast<double>(monotonic_ns() - sent[at]) / 1e6);
      if (status != 201) ++failed;
      reserving[at] = false;
      load->send(c, "POST", "/v1/leases/" + lease_id(body) + "/release", "{}");
    } else {
      busy[at] = false;
    }
  });
  load = &made;
  for (int c = 0; c < kClients; ++c) {
    const Result<int> number = made.open(daemon.address());
    if (!number) return number.error();
  }
  // Each request has its own appointed time: one that is late for its turn counts from that time.
  std::int64_t due = monotonic_ns();
  for (int i = 0; i < kRequests;) {
    const std::int64_t now = monotonic_ns();
    if (now >= due) {
      const auto free = std::find(busy.begin(), busy.end(), false);
      if (free != busy.end()) {
        const auto at = static_cast<std::size_t>(free - busy.begin());
        busy[at] = true;
        reserving[at] = true;
        sent[at] = due;
        made.send(static_cast<int>(at), "POST", "/v1/leases",
                  reserve_body(fmt::format("p{}", i), "256"));
        due += period;
        ++i;
        continue;
      }
    }
    made.turn(now >= due ? 1 : static_cast<int>((due - now) / 1'000'000));
  }
  while (std::find(busy.begin(), busy.end(), true) != busy.end())
    made.turn(100);
  const double sync = fdatasync_p99_ms();
  return std::vector<Row>{{.name = "lease.reserve_p99_ms",
                           .unit = "ms",
                           .figures = {{.key = {},
                                        .value = percentile(times, 0.99),
                                        .goal = {GoalKind::at_most, 5 + sync}}},
                           .baseline = sync,
                           .also_needs = failed == 0}};
}

Result<std::vector<Row>> measure_restart(const Context& context) {
  TRY(ServeProcess daemon, serve(context, "64x80GiB"));
  constexpr int kLeases = 10'000;
  constexpr int kClients = 64;
  int sent = 0;
  int done = 0;
  HttpLoad* load = nullptr;
  const auto next = [&](int c) {
    if (sent < kLeases) {
      load->send(c, "POST", "/v1/leases",
                 fmt::format(R"({{"key":"r{}","memory":256,"node":"n0","confirm_seconds":86400}})",
                             sent++));
    }
  };
  HttpLoad made(daemon.token(), [&](int c, int, std::string_view) {
    ++done;
    next(c);
  });
  load = &made;
  for (int c = 0; c < kClients; ++c) {
    const Result<int> number = made.open(daemon.address());
    if (!number) return number.error();
    next(c);
  }
  while (done < kLeases)
    made.turn(1000);
  std::vector<double> times;
  for (int i = 0; i < std::max(context.repetitions, 3); ++i) {
    TRY(const std::int64_t ns, daemon.restart());
    times.push_back(static_cast<double>(ns) / 1e6);
  }
  return std::vector<Row>{{.name = "restart.10k_ms",
                           .unit = "ms",
                           .figures = {best_low("", times, {GoalKind::at_most, 500})}}};
}

// Two clients ask for the last room at the same time.
Result<std::vector<Row>> measure_race(const Context& context) {
  TRY(const ServeProcess daemon, serve(context, "1x16GiB"));
  constexpr int kRounds = 10'000;
  std::int64_t doubles = 0;
  std::int64_t none = 0;
  int answers = 0;
  int granted = 0;
  std::vector<std::string> ids(2);
  HttpLoad load(daemon.token(), [&](int c, int status, std::string_view body) {
    ++answers;
    if (status == 201) ++granted;
    ids[static_cast<std::size_t>(c)] = lease_id(body);
  });
  for (int c = 0; c < 2; ++c) {
    const Result<int> number = load.open(daemon.address());
    if (!number) return number.error();
  }
  for (int round = 0; round < kRounds; ++round) {
    answers = granted = 0;
    for (int c = 0; c < 2; ++c) {
      load.send(c, "POST", "/v1/leases", reserve_body(fmt::format("b{}-{}", round, c), "9Gi"));
    }
    while (answers < 2)
      load.turn(1000);
    doubles += granted > 1 ? 1 : 0;
    none += granted < 1 ? 1 : 0;
    answers = 0;
    // The one that waits leaves first, so that it is never granted.
    for (int c = 0; c < 2; ++c) {
      load.send(c, "DELETE", "/v1/leases/" + ids[static_cast<std::size_t>(c)]);
    }
    while (answers < 2)
      load.turn(1000);
  }
  return std::vector<Row>{{.name = "lease.race_b8",
                           .unit = "double grants",
                           .figures = {{.key = {},
                                        .value = static_cast<double>(doubles),
                                        .goal = {GoalKind::at_most, 0}}},
                           .also_needs = none == 0}};
}

// A thousand claims of different sizes wait for sixteen full devices; one device becomes free.
Result<std::vector<Row>> measure_pass(const Context& context) {
  TRY(const std::vector<core::Node> fleet, scenario::fleet_from_spec("n0=16x80GiB"));
  std::vector<double> times;
  std::int64_t wrong = 0;
  for (int repetition = 0; repetition < std::max(context.repetitions, 5); ++repetition) {
    core::EngineConfig config;
    config.policy = "spread";
    TRY(const std::unique_ptr<core::Engine> engine, core::Engine::create(config));
    std::int64_t clock = 0;
    const auto apply = [&](core::EventBody body) {
      return engine->apply({Time(++clock), std::move(body)});
    };
    core::Node node = fleet.front();
    node.pod_slots = 1'000'000;
    apply(core::NodeUpserted{node});
    const auto submit = [&](const std::string& uid, std::int64_t mib) -> Result<void> {
      core::RequestSpec spec;
      spec.containers.push_back({.name = "main", .gpu = core::DeviceAsk::memory_mib(mib)});
      TRY(core::Request request, core::Request::create(std::move(spec)));
      apply(core::WorkloadSubmitted{core::Workload::task(uid, std::move(request))});
      return success();
    };
    for (int i = 0; i < 16; ++i)
      TRY_VOID(submit(fmt::format("holder{}", i), 79'000));
    for (int i = 0; i < 1000; ++i)
      TRY_VOID(submit(fmt::format("w{}", i), 40'000 + i));
    const std::int64_t begin = monotonic_ns();
    std::int64_t granted = 0;
    for (const core::Action& action : apply(core::GrantReleased{"holder3"})) {
      granted += std::holds_alternative<core::Granted>(action) ? 1 : 0;
    }
    times.push_back(static_cast<double>(monotonic_ns() - begin) / 1e6);
    if (granted != 1) ++wrong;
  }
  return std::vector<Row>{{.name = "pass.1000x16_ms",
                           .unit = "ms",
                           .figures = {best_low("", times, {GoalKind::at_most, 5})},
                           .is_time = true,
                           .also_needs = wrong == 0}};
}

// What `berth run` adds to a program that does nothing, daemon up and room free: medians, in turn.
Result<std::vector<Row>> measure_run(const Context& context) {
  TRY(const ServeProcess daemon,
      ServeProcess::start(program_of(context), "build", {"--simulate", "1x16GiB"}));
  const std::string run = fmt::format("BERTH_SOCKET={} {} run --gpu-memory 1Gi -- true",
                                      daemon.socket().substr(5), program_of(context));
  std::int64_t failed = 0;
  const auto timed = [&failed](const std::string& command) {
    const std::int64_t begin = monotonic_ns();
    if (std::system(command.c_str()) != 0) ++failed;
    return static_cast<double>(monotonic_ns() - begin) / 1e6;
  };
  std::vector<double> with;
  std::vector<double> without;
  for (int i = 0; i < 60; ++i) {
    with.push_back(timed(run));
    without.push_back(timed("true"));
  }
  return std::vector<Row>{{.name = "run.overhead_ms",
                           .unit = "ms",
                           .figures = {{.key = {},
                                        .value = percentile(with, 0.5) - percentile(without, 0.5),
                                        .goal = {GoalKind::at_most, 15}}},
                           .also_needs = failed == 0}};
}

constexpr Measurement kMeasurements[] = {
    {"lease.cycle_per_s", "reserve, confirm, release: durable, sixteen clients", measure_cycle},
    {"lease.reserve_p99_ms", "a reservation at 500 a second", measure_reserve},
    {"waiters.1000", "a thousand long polls and a thousand streams", measure_waiters},
    {"restart.10k_ms", "kill -9 with 10,000 leases until ready", measure_restart},
    {"pass.1000x16_ms", "one pass over a thousand that wait", measure_pass},
    {"run.overhead_ms", "berth run of a program that does nothing", measure_run},
    {"lease.race_b8", "two ask at once for what one may have", measure_race},
};

}  // namespace

std::span<const Measurement> lease_measurements() { return kMeasurements; }

}  // namespace berth::bench
