// Decisions a second without an API server: what watches told, played to the harbour as it came.
//
//   berth-bench-decisions NODES PODS [REPETITIONS]      recorded watch frames, one a line
//
// Each frame is read as from the wire, every binding and event is written out as a body and goes
// nowhere; the answer is 201, and the watch shows the bound pod. All of that is in the time, but
// not making up the frames that show it. On stdout: JSON with the best repetition. Called by
// main.py.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "json/dom.h"
#include "kube/client/frames.h"
#include "kube/objects/bodies.h"
#include "kube/objects/read.h"
#include "kube/scheduler/harbour.h"

namespace berth::kube {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// As much as comes from a socket at once, to the end of a frame: what shows the bound pods follows.
constexpr std::size_t kPiece = std::size_t{64} << 10U;

std::string_view piece_of(std::string_view frames) {
  const std::size_t end = frames.find('\n', std::min(kPiece, frames.size()));
  return frames.substr(0, end == std::string_view::npos ? end : end + 1);
}

Result<std::string> text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return invalid_argument(path + " cannot be read: record it with `make bench-kube`");
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class Trial {
 public:
  static Result<Trial> create() {
    HarbourConfig config;
    config.nodes.allow_advisory = true;  // nodes without agents, pods that came past no webhook
    config.must_be_admitted = false;
    Trial trial;
    TRY(trial.harbour_, Harbour::create(config, trial.now_));
    return trial;
  }

  Result<void> hear(std::string_view frames, bool nodes) {
    Result<void> read = success();
    const bool whole = splitter_.feed(frames, [&](std::string_view line) {
      read = hear_one(line, nodes);
      return read.ok();
    });
    TRY_VOID(read);
    return whole ? success() : invalid_argument("a frame is too long");
  }

  void lead() { harbour_->set_ready(true, now_); }

  // Decides and binds until nothing is left to do; the pods that were bound.
  std::vector<Bind> decide() {
    std::vector<Bind> bound;
    harbour_->settle(now_);
    while (harbour_->has_deeds()) {
      for (Deed& deed : harbour_->take({.bindings = 72, .conditions = 64, .events = 64}, now_)) {
        if (auto* bind = std::get_if<Bind>(&deed.body)) {
          written_ += binding_body(ref(bind->pod), bind->node, bind->annotations).size();
          harbour_->answered(deed.number, {.status = 201}, now_);
          bound.push_back(std::move(*bind));
        } else {
          if (const auto* say = std::get_if<Say>(&deed.body)) {
            written_ += event_body({.regarding = ref(say->pod),
                                    .reason = say->reason,
                                    .action = say->action,
                                    .note = say->note,
                                    .time_us = say->first_us},
                                   event_name(ref(say->pod), say->first_us))
                            .size();
          }
          harbour_->answered(deed.number, {.status = 201}, now_);
        }
      }
      harbour_->settle(now_);
    }
    return bound;
  }

  std::int64_t confirmed(std::string_view id) const {
    return harbour_->phase(id) == PodPhase::confirmed ? 1 : 0;
  }

  std::size_t written() const { return written_; }

 private:
  static ObjectRef ref(const PodName& pod) {
    return {.namespace_name = pod.namespace_name, .name = pod.name, .uid = pod.uid};
  }

  Result<void> hear_one(std::string_view line, bool nodes) {
    TRY(const FrameHead head, read_frame_head(line));
    if (head.type == "BOOKMARK") {
      return success();
    }
    json::DomParser& parser = nodes ? node_parser_ : pod_parser_;
    TRY(const json::Element object, parser.parse(head.object));
    if (nodes) {
      TRY(const Node node, read_node(object));
      harbour_->node_changed(node, now_);
    } else {
      TRY(const Pod pod, read_pod(object));
      harbour_->pod_changed(pod, now_);
    }
    return success();
  }

  Time now_{1'000'000};
  std::unique_ptr<Harbour> harbour_;
  FrameSplitter splitter_;
  json::DomParser node_parser_;
  json::DomParser pod_parser_;
  std::size_t written_ = 0;
};

// The pods of a recording by name, to make up what the watch says of them once they are bound.
Result<std::unordered_map<std::string, Json>> pods_by_name(std::string_view frames) {
  std::unordered_map<std::string, Json> pods;
  FrameSplitter splitter;
  bool read = true;
  splitter.feed(frames, [&](std::string_view line) {
    const Json frame = Json::parse(line, nullptr, false);
    read = read && frame.is_object() && frame.contains("object");
    if (read && frame["type"] != "BOOKMARK") {
      pods.insert_or_assign(frame["object"]["metadata"]["name"].get<std::string>(),
                            frame["object"]);
    }
    return read;
  });
  if (!read) {
    return invalid_argument("a line of the recorded pods is no watch frame");
  }
  return pods;
}

std::string bound_frame(Json pod, const Bind& bind) {
  pod["spec"]["nodeName"] = bind.node;
  for (const auto& [key, value] : bind.annotations) {
    pod["metadata"]["annotations"][key] = value;
  }
  return Json{{"type", "MODIFIED"}, {"object", std::move(pod)}}.dump() + "\n";
}

struct Outcome {
  double seconds = 0;
  std::int64_t decisions = 0;
  std::int64_t pods = 0;
};

Result<Outcome> play(const std::string& nodes, const std::string& pods,
                     const std::unordered_map<std::string, Json>& by_name) {
  TRY(Trial trial, Trial::create());
  TRY_VOID(trial.hear(nodes, true));
  trial.lead();
  Outcome outcome{.pods = static_cast<std::int64_t>(by_name.size())};
  const auto timed = [&](const auto& doing) {
    const Clock::time_point began = Clock::now();
    auto result = doing();
    outcome.seconds += std::chrono::duration<double>(Clock::now() - began).count();
    return result;
  };
  trial.decide();
  for (std::string_view left = pods; !left.empty();) {
    const std::string_view piece = piece_of(left);
    left.remove_prefix(piece.size());
    Result<void> heard = success();
    std::vector<Bind> bound = timed([&] {
      heard = trial.hear(piece, false);
      return trial.decide();
    });
    TRY_VOID(heard);
    std::string shown;
    for (const Bind& bind : bound) {
      shown += bound_frame(by_name.at(bind.pod.name), bind);
    }
    bound = timed([&] {
      heard = trial.hear(shown, false);
      return trial.decide();
    });
    TRY_VOID(heard);
    if (!bound.empty()) {
      return Error(ErrorCode::internal, "a pod was bound by what the watch showed of others");
    }
  }
  for (const auto& [name, pod] : by_name) {
    outcome.decisions +=
        trial.confirmed(pod["metadata"]["namespace"].get<std::string>() + "/" + name);
  }
  return outcome;
}

Result<void> run(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    return invalid_argument("usage: berth-bench-decisions NODES PODS [REPETITIONS]");
  }
  TRY(const std::string nodes, text_of(argv[1]));
  TRY(const std::string pods, text_of(argv[2]));
  TRY(const auto by_name, pods_by_name(pods));
  const int repetitions = argc == 4 ? std::max(1, std::atoi(argv[3])) : 5;
  double best = 0;
  double worst = 0;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    TRY(const Outcome outcome, play(nodes, pods, by_name));
    if (outcome.decisions != outcome.pods) {
      return Error(ErrorCode::internal,
                   fmt::format("{} of {} pods were bound", outcome.decisions, outcome.pods));
    }
    const double rate = static_cast<double>(outcome.decisions) / outcome.seconds;
    best = std::max(best, rate);
    worst = repetition == 0 ? rate : std::min(worst, rate);
  }
  std::cout << Json{{"decisions_per_s", best}, {"worst", worst}, {"pods", by_name.size()}} << "\n";
  return success();
}

}  // namespace
}  // namespace berth::kube

int main(int argc, char** argv) {
  const auto done = berth::kube::run(argc, argv);
  if (done.ok()) {
    return 0;
  }
  std::cerr << "berth-bench-decisions: " << done.error().message() << "\n";
  return done.error().code() == berth::ErrorCode::invalid_argument ? 2 : 1;
}
