// The client by hand: reads one command per line, prints what happens, one line each.
//
//   watch NAME auto|list PATH [SELECTOR]   objects of a path: "+ NAME KEY UID VERSION", "~", "-"
//   lease NAMESPACE NAME IDENTITY          "leading", "lost WHY", "leader WHO", "released"
//   write TAG METHOD PATH BODY             through the queue of writes, behind the lease's fence
//   call TAG METHOD PATH BODY              a call that may be tried again
//   burst COUNT PATH BODY                  so many writes, {} is the number; ends with
//                                          "burst CPU_US WALL_MS BAD"
//   release, figures, discover, quit
//
// A write or call is answered with "done TAG OUTCOME STATUS TEXT".
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kube/client/access.h"
#include "kube/client/client.h"
#include "kube/client/discovery.h"
#include "kube/client/lease.h"
#include "kube/client/reflector.h"
#include "kube/client/write_queue.h"

namespace {

using namespace berth;        // NOLINT(google-build-using-namespace): a program of one file
using namespace berth::kube;  // NOLINT(google-build-using-namespace)

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::int64_t cpu_us() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1'000'000 + used.ru_utime.tv_usec +
         used.ru_stime.tv_usec;
}

class Told final : public ObjectSink {
 public:
  explicit Told(std::string name) : name_(std::move(name)) {}
  void on_object(const ObjectEvent& event) override {
    static constexpr std::array<std::string_view, 3> kMarks = {"+", "~", "-"};
    say(fmt::format("{} {} {} {} {}", kMarks.at(static_cast<std::size_t>(event.change)), name_,
                    event.key, event.uid, event.version));
  }
  void on_synced() override { say("synced " + name_); }
  void on_trouble(std::string_view what) override {
    say(fmt::format("trouble {} {}", name_, what));
  }

 private:
  std::string name_;
};

class Leader final : public LeaseListener {
 public:
  void on_leading() override { say("leading"); }
  void on_lost(std::string_view why) override { say(fmt::format("lost {}", why)); }
  void on_leader(std::string_view who) override { say(fmt::format("leader {}", who)); }
  void on_trouble(std::string_view what) override { say(fmt::format("trouble lease {}", what)); }
};

class Probe {
 public:
  explicit Probe(std::unique_ptr<Client> client)
      : client_(std::move(client)), writes_(*client_, client_->timers(), [this] {
          return lease_ == nullptr || lease_->may_write();
        }) {}

  void run() {
    std::thread reader([this] {
      for (std::string line; std::getline(std::cin, line);) {
        client_->post([this, line] { command(line); });
      }
      client_->post([this] { quit_ = true; });
    });
    while (!quit_)
      client_->turn(Duration(10'000));
    reader.detach();
  }

 private:
  void command(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "watch") watch(words);
    if (verb == "lease") take_lease(words);
    if (verb == "write" || verb == "call") write(words, verb == "call");
    if (verb == "burst") burst(words);
    if (verb == "release") lease_->release([] { say("released"); });
    if (verb == "figures") figures();
    if (verb == "discover") discovery();
    if (verb == "quit") quit_ = true;
  }

  void watch(std::istringstream& words) {
    std::string name;
    std::string how;
    ReflectorOptions options;
    words >> name >> how >> options.path >> options.selector;
    options.watch_list = how == "auto";
    options.shortest_watch = Duration(5'000);
    options.longest_watch = Duration(10'000);
    told_.push_back(std::make_unique<Told>(name));
    reflectors_.push_back(std::make_unique<Reflector>(*client_, client_->timers(),
                                                      client_->chance(), options, *told_.back()));
    reflectors_.back()->start();
  }

  void take_lease(std::istringstream& words) {
    LeaseOptions options;
    words >> options.namespace_name >> options.name >> options.identity;
    lease_ = std::make_unique<LeaderLease>(*client_, client_->timers(), client_->chance(), options,
                                           leader_);
    lease_->start();
  }

  void write(std::istringstream& words, bool plain) {
    static const std::map<std::string, Method> kMethods = {{"GET", Method::get},
                                                           {"POST", Method::post},
                                                           {"PUT", Method::put},
                                                           {"PATCH", Method::patch},
                                                           {"DELETE", Method::del}};
    std::string tag;
    std::string method;
    Call call;
    words >> tag >> method >> call.path;
    std::getline(words, call.body);
    call.method = kMethods.at(method);
    call.timeout = Duration(3'000);
    if (call.method == Method::patch) call.content = Content::strategic_merge_patch;
    auto done = [tag](const Answer& answer) {
      static constexpr std::array<std::string_view, 3> kNames = {"answered", "not_sent", "unknown"};
      std::string text(answer.outcome == Outcome::answered ? answer.body : answer.problem);
      for (char& c : text)
        c = c == '\n' ? ' ' : c;
      say(fmt::format("done {} {} {} {}", tag, kNames.at(static_cast<std::size_t>(answer.outcome)),
                      answer.status, text));
    };
    if (plain) {
      call.retry = Retry::idempotent;
      client_->call(std::move(call), done);
    } else {
      call.lane = Lane::write;
      writes_.submit({.object = tag, .call = std::move(call), .done = done});
    }
  }

  void burst(std::istringstream& words) {
    int count = 0;
    std::string path;
    std::string body;
    words >> count >> path;
    std::getline(words, body);
    struct Going {
      int left;
      int bad = 0;
      std::int64_t cpu = cpu_us();
      Time begin = machine_clock().now();
    };
    const auto going = std::make_shared<Going>(Going{.left = count});
    for (int i = 0; i < count; ++i) {
      const auto numbered = [i](std::string text) {
        if (const std::size_t at = text.find("{}"); at != std::string::npos) {
          text.replace(at, 2, std::to_string(i));
        }
        return text;
      };
      writes_.submit({.object = std::to_string(i),
                      .call = {.method = Method::post,
                               .path = numbered(path),
                               .body = numbered(body),
                               .lane = Lane::write},
                      .done = [going](const Answer& answer) {
                        going->bad += answer.ok() ? 0 : 1;
                        if (--going->left > 0) return;
                        say(fmt::format("burst {} {} {}", cpu_us() - going->cpu,
                                        (machine_clock().now() - going->begin).count(),
                                        going->bad));
                      }});
    }
  }

  void discovery() {
    discover(*client_, [](Result<ServerInfo> info) {
      if (!info.ok()) return say("discovery " + info.error().message());
      say(fmt::format("discovery {} {}.{} slices={} podgroups={}", info->version, info->major,
                      info->minor,
                      info->preferred("resource.k8s.io", {"v1", "v1beta2"}, "resourceslices"),
                      info->preferred("scheduling.k8s.io", {"v1", "v1beta1"}, "podgroups")));
    });
  }

  void figures() {
    const ClientFigures f = client_->figures();
    say(fmt::format("figures calls={} answers={} retries={} unknown={} not_sent={} lost={}",
                    f.calls, f.answers, f.retries, f.unknown, f.not_sent, f.lost_lanes));
  }

  std::unique_ptr<Client> client_;
  Leader leader_;
  std::unique_ptr<LeaderLease> lease_;
  WriteQueue writes_;
  std::vector<std::unique_ptr<Told>> told_;
  std::vector<std::unique_ptr<Reflector>> reflectors_;
  bool quit_ = false;
};

}  // namespace

int main() {
  Result<Access> access = find_access({}, process_environment());
  if (!access.ok()) return say("refused " + access.error().to_string()), 1;
  ClientOptions options{.user_agent = "berth-probe", .seed = 1};
  if (const char* silence = std::getenv("SILENCE_MS"); silence != nullptr) {
    options.silence = options.patience = Duration(std::atoi(silence));
  }
  Result<std::unique_ptr<Client>> client = Client::make(std::move(access).value(), options);
  if (!client.ok()) return say("refused " + client.error().to_string()), 1;
  Probe(std::move(client).value()).run();
  // The reader may still wait for a line.
  std::_Exit(0);
}
