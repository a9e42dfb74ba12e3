#include "core/queue/queue_config.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/suggest.h"

namespace berth::core {

namespace {

class Checker {
 public:
  Checker(const QueueConfig& config, const std::vector<std::string>& classes)
      : config_(config), classes_(classes) {
    std::map<std::string_view, const QueueSpec*> first;
    for (const QueueSpec& spec : config.queues) {
      ++times_[spec.name];
      const auto at = first.try_emplace(spec.name, &spec).first;
      if (counts_before(spec, *at->second)) {
        at->second = &spec;
      }
    }
    for (const auto& [name, spec] : first) {
      parents_.emplace(name, name == kRootQueueName ? "" : spec->parent);
    }
  }

  std::vector<QueueProblem> run() {
    for (const auto& [name, times] : times_) {
      check_times(name, times);
    }
    for (const QueueSpec& spec : config_.queues) {
      check_parent(spec);
      check_settings(spec);
      check_dimensions(spec);
    }
    std::ranges::sort(problems_, [](const QueueProblem& a, const QueueProblem& b) {
      return std::tie(a.queue, a.text) < std::tie(b.queue, b.text);
    });
    // Each of two entries of one name may have the same to say.
    problems_.erase(std::ranges::unique(problems_).begin(), problems_.end());
    return std::move(problems_);
  }

 private:
  void refuse(const std::string& queue, std::string text) {
    problems_.push_back({.queue = queue, .text = std::move(text), .holds = false});
  }

  void hold(const std::string& queue, std::string text) {
    problems_.push_back({.queue = queue, .text = std::move(text), .holds = true});
  }

  void check_times(const std::string& name, int times) {
    if (name.empty()) {
      refuse(name, "name: empty; every queue needs a name of its own");
    }
    if (name.find('/') != std::string::npos) {
      refuse(name, fmt::format("name: {} contains '/', which separates the queues of a path; "
                               "leave it out",
                               name));
    }
    if (times > 1) {
      refuse(name, fmt::format("name: {} is given {} times; names are unique in the whole tree, "
                               "rename all but one",
                               name, times));
    }
  }

  void check_parent(const QueueSpec& spec) {
    if (spec.name == kRootQueueName) {
      if (!spec.parent.empty() && spec.parent != kRootQueueName) {
        hold(spec.name,
             fmt::format("parent: {}; the root has no parent, leave the field out", spec.parent));
      }
      return;
    }
    if (spec.parent.empty()) {
      hold(spec.name, fmt::format("parent: empty; there is one root, named {}: leave the field out "
                                  "or name a queue",
                                  kRootQueueName));
      return;
    }
    if (spec.parent != kRootQueueName && !parents_.contains(spec.parent)) {
      std::vector<std::string> known{std::string(kRootQueueName)};
      for (const auto& [name, parent] : parents_) {
        if (name != spec.name) {
          known.push_back(name);
        }
      }
      hold(spec.name, fmt::format("parent: {} does not exist; name a queue of the tree, nearest is "
                                  "{}",
                                  spec.parent, nearest(spec.parent, known)));
      return;
    }
    check_cycle(spec);
  }

  // Whether the way up comes back to where it began.
  void check_cycle(const QueueSpec& spec) {
    std::string way = spec.name;
    std::set<std::string> seen;
    for (std::string at = spec.parent; at != kRootQueueName && seen.insert(at).second;) {
      way += " -> " + at;
      if (at == spec.name) {
        hold(spec.name, fmt::format("parent: {} closes the circle {}; the way up must end at {}, "
                                    "give one of these another parent",
                                    spec.parent, way, kRootQueueName));
        return;
      }
      const auto up = parents_.find(at);
      if (up == parents_.end()) {
        return;  // said of that one
      }
      at = up->second;
    }
  }

  struct Range {
    std::int64_t low;
    std::int64_t high;
  };

  void check_range(const std::string& queue, const std::string& field, std::int64_t value,
                   Range range) {
    if (value < range.low || value > range.high) {
      refuse(queue, fmt::format("{}: {} is outside {} to {}; give a value in this range", field,
                                value, range.low, range.high));
    }
  }

  void check_settings(const QueueSpec& spec) {
    constexpr std::int64_t kMost = kMostQuota - 1;
    const std::string& queue = spec.name;
    check_range(queue, "priority", spec.priority, {-kMostPriority, kMostPriority});
    check_range(queue, "minRuntime.reclaim (ms)", spec.min_runtime.reclaim.count(), {0, kMost});
    check_range(queue, "minRuntime.preempt (ms)", spec.min_runtime.preempt.count(), {0, kMost});
    std::set<std::int64_t> from;
    for (const MinRuntime::ByPriority& row : spec.min_runtime.by_priority) {
      const std::string field = fmt::format("minRuntime.byPriority[{}]", row.at_least);
      check_range(queue, field + ".reclaim (ms)", row.reclaim.count(), {0, kMost});
      check_range(queue, field + ".preempt (ms)", row.preempt.count(), {0, kMost});
      if (!from.insert(row.at_least).second) {
        refuse(queue, fmt::format("{}: given twice; keep one row per priority", field));
      }
    }
    check_range(queue, "preemptionDelay (ms)", spec.preemption_delay.count(), {0, kMost});
    if (spec.history.has_value()) {
      check_range(queue, "history.halfLife (ms)", spec.history->half_life.count(), {1000, kMost});
      check_range(queue, "history.k", spec.history->k, {0, kMostHistoryK});
    }
    check_range(queue, "aging.step (ms)", spec.aging.step.count(), {1, kMost});
    check_range(queue, "aging.max", spec.aging.max, {0, kMostPriority});
    check_range(queue, "evictions.perWorkloadPerHour", spec.evictions.per_workload_per_hour,
                {kNoCap, kMost});
    check_range(queue, "evictions.perClaim", spec.evictions.per_claim, {kNoCap, kMost});
    if (spec.device_cap.has_value()) {
      check_range(queue, "deviceCap", *spec.device_cap, {1, kMostDeviceCap});
    }
  }

  void check_dimensions(const QueueSpec& spec) {
    std::set<std::string> seen;
    for (const QueueDimension& dimension : spec.dimensions) {
      const std::string name = dimension_name(dimension);
      if (!seen.insert(name).second) {
        refuse(spec.name, fmt::format("dims.{}: given twice; keep one", name));
      }
      check_class(spec, dimension);
      check_amounts(spec.name, "dims." + name, dimension);
    }
  }

  void check_class(const QueueSpec& spec, const QueueDimension& dimension) {
    if (dimension.device_class == "*" || classes_.empty() ||
        std::ranges::find(classes_, dimension.device_class) != classes_.end()) {
      return;
    }
    refuse(spec.name,
           fmt::format("dims.{}: no device of the fleet is of class {}; name one that exists "
                       "(nearest is {}) or * for all",
                       dimension_name(dimension), dimension.device_class,
                       nearest(dimension.device_class, classes_)));
  }

  void check_amounts(const std::string& queue, const std::string& field,
                     const QueueDimension& dimension) {
    constexpr std::int64_t kMost = kMostQuota - 1;
    check_range(queue, field + ".deserved", dimension.deserved, {kUnlimited, kMost});
    check_range(queue, field + ".limit", dimension.limit, {kUnlimited, kMost});
    check_range(queue, field + ".reserved", dimension.reserved, {0, kMost});
    check_range(queue, field + ".weight", dimension.weight, {0, kMostWeight});
    const auto above = [](std::int64_t amount, std::int64_t bound) {
      return bound >= 0 && amount > bound;
    };
    if (above(dimension.deserved, dimension.limit)) {
      refuse(queue, fmt::format("{}.deserved: {} is above the limit {}; raise the limit or lower "
                                "what it deserves",
                                field, dimension.deserved, dimension.limit));
    }
    if (above(dimension.reserved, dimension.deserved)) {
      refuse(queue, fmt::format("{}.reserved: {} is above deserved {}, of which it is a part; "
                                "lower it",
                                field, dimension.reserved, dimension.deserved));
    } else if (above(dimension.reserved, dimension.limit)) {
      refuse(queue, fmt::format("{}.reserved: {} is above the limit {}; lower it", field,
                                dimension.reserved, dimension.limit));
    }
  }

  const QueueConfig& config_;
  const std::vector<std::string>& classes_;
  std::map<std::string, int> times_;
  std::map<std::string, std::string> parents_;
  std::vector<QueueProblem> problems_;
};

}  // namespace

QueueConfig default_queues() {
  QueueConfig config;
  QueueSpec& queue = config.queues.emplace_back();
  queue.name = "default";
  queue.reclaim = ReclaimRight::never;
  queue.preempt = PreemptRight::never;
  return config;
}

std::string_view dimension_kind_name(DimensionKind kind) {
  switch (kind) {
    case DimensionKind::memory: return "memory";
    case DimensionKind::devices: return "devices";
    case DimensionKind::compute: return "compute";
  }
  return "";
}

std::string dimension_name(const QueueDimension& dimension) {
  return fmt::format("{}/{}", dimension.device_class, dimension_kind_name(dimension.kind));
}

bool counts_before(const QueueSpec& a, const QueueSpec& b) {
  return std::tie(a.created, a.parent, a.priority, a.dimensions) <
         std::tie(b.created, b.parent, b.priority, b.dimensions);
}

std::vector<QueueProblem> check_queues(const QueueConfig& config,
                                       const std::vector<std::string>& classes) {
  return Checker(config, classes).run();
}

}  // namespace berth::core
