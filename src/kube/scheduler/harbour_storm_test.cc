// A storm: the harbour against a model of the API server that loses answers, delays its watches,
// restarts the scheduler and moves nodes. After every step nothing is promised twice on the
// server's own record; in the end nothing is forgotten. kubernetes-api.md 4, 23.4.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "kube/objects/grant.h"
#include "kube/scheduler/harbour_test_support.h"

namespace berth::kube {
namespace {

constexpr std::int64_t kDeviceMib = 100;

// What a real API server does with pods and bindings, and what its watches say of it.
class Server {
 public:
  struct Event {
    bool gone = false;
    Pod pod;
  };

  std::map<std::string, Pod> pods;  // by name
  std::deque<Event> watch;

  void put(const Pod& pod) {
    pods[pod.meta.name] = pod;
    watch.push_back({.gone = false, .pod = pod});
  }

  void remove(const std::string& name) {
    if (std::getenv("BERTH_STORM_TRACE") != nullptr) {
      std::printf("server: %s is gone\n", name.c_str());
    }
    watch.push_back({.gone = true, .pod = pods.at(name)});
    pods.erase(name);
  }

  Said bind(const Bind& bind) {
    const Said said = judge(bind);
    if (std::getenv("BERTH_STORM_TRACE") != nullptr) {
      std::printf("server: bind %s to %s %s: %d\n", bind.pod.name.c_str(), bind.node.c_str(),
                  bind.annotations.contains("berth.dev/main.devices")
                      ? bind.annotations.at("berth.dev/main.devices").c_str()
                      : "",
                  said.status);
    }
    return said;
  }

  Said judge(const Bind& bind) {
    const auto found = pods.find(bind.pod.name);
    if (found == pods.end()) {
      return {.status = 404};
    }
    Pod& pod = found->second;
    if (pod.meta.uid != bind.pod.uid || pod.meta.deleting || pod.gated || pod.assigned()) {
      return {.status = 409};
    }
    EXPECT_TRUE(bound_.insert(pod.meta.uid).second) << pod.meta.name << " is bound twice";
    put(bound_by(pod, bind));
    return {.status = 201};
  }

  Said read(const ReadPod& read) const {
    const auto found = pods.find(read.pod.name);
    return found == pods.end() ? Said{.status = 404} : Said{.status = 200, .pod = found->second};
  }

  // MiB by device, of everything that is bound and has not ended.
  std::map<std::string, std::int64_t> promised() const {
    std::map<std::string, std::int64_t> sums;
    for (const auto& [name, pod] : pods) {
      const auto grant = pod.meta.annotations.find("berth.dev/grant");
      if (!pod.assigned() || pod.ended() || grant == pod.meta.annotations.end()) {
        continue;
      }
      const GrantReading reading = read_grant(grant->second);
      EXPECT_TRUE(reading.record.has_value()) << grant->second;
      for (const GrantedContainer& container : reading.record->containers) {
        for (const GrantedDevice& device : container.devices) {
          sums[device.uuid] += device.request_mib;
        }
      }
    }
    return sums;
  }

 private:
  std::set<std::string> bound_;
};

class Storm {
 public:
  explicit Storm(std::uint32_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      nodes_.push_back(test_node("n" + std::to_string(i), 2, kDeviceMib));
      present_.push_back(true);
    }
    start();
  }

  void step() {
    switch (below(14)) {
      case 0:
      case 1: create(); break;
      case 2: remove(); break;
      case 3: finish(); break;
      case 4: foreign(); break;
      case 5:
      case 6: deliver(below(6)); break;
      case 7:
      case 8: take(below(3)); break;
      case 9:
      case 10: resolve(); break;
      case 11: cluster_.pass(below(20) == 0 ? 61'000 : below(3'000)); break;
      case 12: move_node(); break;
      case 13:
        if (below(6) == 0) {
          restart();
        }
        break;
      default: break;
    }
    cluster_.check();
    check();
    tell_news();
  }

  // No more faults: everything is told and answered, until nothing is wanted any more.
  void calm() {
    faults_ = false;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!present_[i]) {
        present_[i] = true;
        nodes_[i].meta.uid += "+";
        cluster_.tell(nodes_[i]);
        note("node back " + nodes_[i].meta.name);
        tell_news();
      }
    }
    for (int i = 0; i < 200; ++i) {
      while (!sent_.empty()) {
        resolve();
      }
      deliver(server_.watch.size());
      take(100);
      cluster_.pass(i < 100 ? 2'000 : 61'000);
      tell_news();
      if (i > 120 && sent_.empty() && !cluster_.harbour->has_deeds() && server_.watch.empty()) {
        break;
      }
    }
    check();
    std::map<std::string, std::int64_t> promised = server_.promised();
    for (const Node& node : nodes_) {
      for (int i = 0; i < 2; ++i) {
        const std::string uuid = "GPU-" + node.meta.name + "-" + std::to_string(i);
        EXPECT_EQ(cluster_.promised_mib(uuid), promised[uuid]) << uuid;
      }
    }
    for (const auto& [name, pod] : server_.pods) {
      if (pod.assigned() || pod.meta.deleting || pod.gated) {
        continue;
      }
      EXPECT_TRUE(cluster_.harbour->words("ns/" + name).has_value())
          << name << " is forgotten, in phase " << static_cast<int>(cluster_.phase(name));
    }
  }

 private:
  void tell_news() {
    for (const HarbourNews& news : cluster_.harbour->take_news()) {
      note(std::string(news.kind) + " " + news.pod + " " + news.node + " " + news.text);
    }
  }

  static void note(const std::string& text) {
    if (std::getenv("BERTH_STORM_TRACE") != nullptr) {
      std::printf("%s\n", text.c_str());
    }
  }

  std::uint32_t below(std::uint64_t most) {
    return most == 0 ? 0 : static_cast<std::uint32_t>(random_() % most);
  }

  void start() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (present_[i]) {
        cluster_.tell(nodes_[i]);
      }
    }
    for (const auto& [name, pod] : server_.pods) {
      cluster_.tell(pod);
    }
    server_.watch.clear();  // the list has it all
    cluster_.ready();
  }

  void create() {
    const std::string name = "p" + std::to_string(below(12));
    if (server_.pods.contains(name)) {
      return;
    }
    Pod pod =
        below(5) == 0 ? test_pod(name, {{"gpu-fraction", "0.5"}}) : share_pod(name, 10 + below(70));
    if (below(6) == 0) {
      pod = test_pod(name);
      pod.words.containers[0].limits["nvidia.com/gpu"] = "1";
      pod.words.containers[0].requests["nvidia.com/gpu"] = "1";
    }
    pod.words.containers[0].requests["cpu"] = std::to_string(1 + below(4));
    pod.priority = below(3);
    if (below(4) == 0) {
      pod.host_ports = {{.port = 80 + below(2)}};
    }
    if (below(8) == 0) {
      pod.gated = true;
    }
    server_.put(pod);
  }

  std::string any_pod() {
    if (server_.pods.empty()) {
      return {};
    }
    auto at = server_.pods.begin();
    std::advance(at, below(server_.pods.size()));
    return at->first;
  }

  void remove() {
    const std::string name = any_pod();
    if (name.empty()) {
      return;
    }
    Pod pod = server_.pods.at(name);
    if (pod.gated && below(2) == 0) {
      pod.gated = false;
      server_.put(pod);
    } else if (pod.assigned() && !pod.meta.deleting) {
      pod.meta.deleting = true;
      server_.put(pod);
    } else {
      server_.remove(name);
    }
  }

  void finish() {
    const std::string name = any_pod();
    if (!name.empty() && server_.pods.at(name).assigned() && below(2) == 0) {
      Pod pod = server_.pods.at(name);
      pod.phase = "Succeeded";
      // It leaves the selector of the watch.
      server_.pods[name] = pod;
      server_.remove(name);
    }
  }

  void foreign() {
    const std::string name = "f" + std::to_string(below(4));
    if (!server_.pods.contains(name)) {
      server_.put(foreign_pod(name, "n" + std::to_string(below(3)), std::to_string(1 + below(9))));
    }
  }

  void deliver(std::size_t most) {
    for (; most > 0 && !server_.watch.empty(); --most) {
      const Server::Event event = server_.watch.front();
      server_.watch.pop_front();
      if (event.gone) {
        cluster_.gone(event.pod);
      } else {
        cluster_.tell(event.pod);
      }
    }
    cluster_.settle();
  }

  void take(std::size_t most) {
    cluster_.settle();
    for (Deed& deed :
         cluster_.harbour->take({.bindings = most, .conditions = 10, .events = 10}, cluster_.now)) {
      sent_.push_back(std::move(deed));
    }
  }

  // One write reaches the server, or does not, and its answer reaches us, or does not.
  void resolve() {
    if (sent_.empty()) {
      return;
    }
    const std::size_t at = below(sent_.size());
    const Deed deed = std::move(sent_[at]);
    sent_.erase(sent_.begin() + static_cast<std::ptrdiff_t>(at));
    Said said{.status = 200};
    const std::uint32_t fault = faults_ ? below(10) : 10;
    if (const auto* bind = std::get_if<Bind>(&deed.body)) {
      if (fault == 0) {
        said = {.status = 429, .retry_after = Duration(1'000)};
      } else if (fault == 1) {
        said = {.status = 500};
      } else if (fault == 2) {
        said = {.outcome = Said::Outcome::not_sent};
      } else if (fault == 3) {
        said = {.outcome = Said::Outcome::unknown};  // and it did not arrive
      } else {
        said = server_.bind(*bind);
        if (fault == 4 || fault == 5) {
          said = {.outcome = Said::Outcome::unknown};  // though it did
        }
      }
    } else if (const auto* read = std::get_if<ReadPod>(&deed.body)) {
      said = fault <= 1 ? Said{.status = 503} : server_.read(*read);
    } else if (fault == 0) {
      said = {.status = 500};
    }
    note("answer " + std::to_string(deed.number) + ": " + std::to_string(said.status) +
         " outcome " + std::to_string(static_cast<int>(said.outcome)));
    cluster_.harbour->answered(deed.number, said, cluster_.now);
  }

  void move_node() {
    const std::size_t at = below(nodes_.size());
    Node& node = nodes_[at];
    switch (below(4)) {
      case 0:
        if (present_[at]) {
          present_[at] = false;
          note("node gone " + node.meta.name);
          cluster_.harbour->node_gone(node.meta.name, node.meta.uid, cluster_.now);
        } else {
          present_[at] = true;
          note("node back " + node.meta.name);
          node.meta.uid += "+";
          cluster_.tell(node);
        }
        break;
      case 1:
      case 2:
        node.conditions[0].status = below(2) == 0 ? "False" : "True";
        if (present_[at]) {
          cluster_.tell(node);
        }
        break;
      default: break;
    }
    node.conditions[0].status = "True";
    if (present_[at]) {
      cluster_.tell(node);
    }
  }

  // The process dies. What it had sent arrives before the next one reads, or never.
  void restart() {
    while (!sent_.empty()) {
      if (const auto* bind = std::get_if<Bind>(&sent_.back().body); bind && below(2) == 0) {
        server_.bind(*bind);
      }
      sent_.pop_back();
    }
    note("restart");
    cluster_.restart();
    start();
  }

  void check() const {
    for (const auto& [uuid, mib] : server_.promised()) {
      EXPECT_LE(mib, kDeviceMib) << uuid;
    }
  }

  std::mt19937 random_;
  Cluster cluster_;
  Server server_;
  std::vector<Node> nodes_;
  std::vector<bool> present_;
  std::vector<Deed> sent_;
  bool faults_ = true;
};

void play(std::uint32_t first, std::uint32_t count, int steps) {
  for (std::uint32_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Storm storm(seed);
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      storm.step();
    }
    storm.calm();
  }
}

TEST(HarbourStormSoak, PromisesNothingTwiceAndForgetsNothing) {
  const bool soak = std::getenv("BERTH_SOAK") != nullptr;
  play(1, soak ? 20'000 : 60, 250);
}

}  // namespace
}  // namespace berth::kube
