#include "sim/week/output.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/printable.h"
#include "sim/output.h"
#include "sim/table.h"

namespace berth::sim {

namespace {

using Align = Table::Align;

constexpr std::int64_t kMsPerSecond = 1000;
constexpr std::int64_t kMsPerMinute = 60 * kMsPerSecond;
constexpr std::int64_t kMsPerHour = 60 * kMsPerMinute;
constexpr std::int64_t kMsPerDay = 24 * kMsPerHour;

std::string devices_text(double milli) { return fmt::format("{:.1f}", milli / 1000); }

std::string queue_label(const QueueWeek& queue) {
  return std::string(2 * static_cast<std::size_t>(std::max(queue.depth, 0)), ' ') +
         printable(queue.name) + (queue.held.empty() ? "" : " (on hold)");
}

std::string cause_text(const QueueWeek& queue) {
  const MainCause main = main_cause(queue);
  return main.cause == core::Cause::none
             ? "-"
             : fmt::format("{} {:.0f} %", core::cause_name(main.cause), main.percent);
}

std::vector<std::string> queue_row(const QueueWeek& queue) {
  const ShareSeries& devices = queue.shares.front();
  std::vector<std::string> row = {queue_label(queue), devices_text(mean_of(devices.used)),
                                  devices.fair.empty() ? "-" : devices_text(mean_of(devices.fair))};
  if (!queue.leaf) {
    row.resize(11);
    return row;
  }
  const bool waited = !queue.waits.empty();
  const auto wait = [&](int percent) {
    return waited ? span_text(wait_quantile(queue.waits, percent)) : "-";
  };
  for (std::string& cell : std::vector<std::string>{
           with_commas(queue.submitted), with_commas(queue.finished), with_commas(queue.evicted),
           wait(50), wait(95), wait(100), with_commas(queue.waiting_at_end), cause_text(queue)})
    row.push_back(std::move(cell));
  return row;
}

std::string queues_text(const WeekResult& week) {
  Table table({{"QUEUE", Align::left},
               {"USED", Align::right},
               {"SHARE", Align::right},
               {"JOBS", Align::right},
               {"FINISHED", Align::right},
               {"EVICTED", Align::right},
               {"WAIT P50", Align::right},
               {"P95", Align::right},
               {"LONGEST", Align::right},
               {"WAIT NOW", Align::right},
               {"WAITED MOST FOR", Align::left}});
  for (const QueueWeek& queue : week.queues)
    table.add(queue_row(queue));
  return table.text();
}

std::string evictions_text(const WeekResult& week) {
  Table table({{"EVICTED FROM", Align::left},
               {"RULE", Align::left},
               {"FOR", Align::left},
               {"TIMES", Align::right},
               {"DEVICE HOURS LOST", Align::right}});
  bool any = false;
  for (const QueueWeek& queue : week.queues) {
    for (const EvictionGroup& group : queue.evictions) {
      any = true;
      table.add({printable(queue.name), std::string(rule_name(group.rule)),
                 group.beneficiary.empty() ? "-" : printable(group.beneficiary),
                 with_commas(group.jobs), fmt::format("{:.1f}", device_hours(group.lost))});
    }
  }
  return any ? "\n" + table.text() : "\nNothing was evicted.\n";
}

std::string never_text(const WeekResult& week) {
  std::string out;
  for (const QueueWeek& queue : week.queues) {
    for (const NeverGroup& group : queue.never) {
      out += fmt::format("{}: {} jobs can never run ({}): {}\n", printable(queue.name),
                         with_commas(group.jobs), core::cause_name(group.cause),
                         printable(group.example));
    }
  }
  return out.empty() ? out : "\n" + out;
}

std::string long_waits_text(const WeekResult& week, std::size_t first_day) {
  std::string out = "\nThe longest waits of each day:\n";
  for (const QueueWeek& queue : week.queues) {
    for (const LongWait& wait : queue.longest) {
      out += fmt::format("  {}, {}: {} waited {}{}\n", printable(queue.name),
                         scenario::clock_text(wait.from, first_day), printable(wait.uid),
                         span_text(wait.wait().count()), wait.started ? "" : " and still waits");
      if (wait.asked_at) {
        out += fmt::format("      {}: {}\n", scenario::clock_text(*wait.asked_at, first_day),
                           printable(wait.sentence));
      } else {
        out += fmt::format("      {}\n", core::cause_name(wait.cause));
      }
    }
  }
  return out;
}

std::string week_text(const WeekResult& week, WeekDetail detail, std::size_t first_day) {
  std::int64_t jobs = 0;
  for (const QueueWeek& queue : week.queues)
    jobs += queue.submitted;
  std::string out = fmt::format(
      "{}: {} jobs, {} events; {:.1f} % of all device time used; of what was free, {:.1f} % lay "
      "on devices in use\n\n{}{}{}",
      printable(week.name), with_commas(jobs), with_commas(week.events), utilisation(week),
      fragmentation(week), queues_text(week), never_text(week), evictions_text(week));
  if (detail == WeekDetail::long_waits) out += long_waits_text(week, first_day);
  return out;
}

// "12 min -> 3 h 05 min".
std::string change_text(const std::string& before, const std::string& after) {
  return before == after ? before : before + " -> " + after;
}

std::string comparison_text(const WeekComparison& comparison) {
  Table table({{"QUEUE", Align::left},
               {"WAIT P50", Align::right},
               {"P95", Align::right},
               {"LONGEST", Align::right},
               {"FINISHED", Align::right},
               {"EVICTED", Align::right},
               {"DEVICE HOURS", Align::right}});
  for (const ComparedQueue& queue : compared_queues(comparison)) {
    const auto change = [&](auto text_of) {
      return change_text(queue.weeks[0] == nullptr ? "-" : text_of(*queue.weeks[0]),
                         queue.weeks[1] == nullptr ? "-" : text_of(*queue.weeks[1]));
    };
    const auto wait = [&](int percent) {
      return change([&](const QueueWeek& week) {
        return week.waits.empty() ? "-" : span_text(wait_quantile(week.waits, percent));
      });
    };
    table.add({printable(queue.name), wait(50), wait(95), wait(100),
               change([](const QueueWeek& week) { return with_commas(week.finished); }),
               change([](const QueueWeek& week) { return with_commas(week.evicted); }),
               change([](const QueueWeek& week) {
                 return fmt::format("{:.0f}", device_hours(week.delivered));
               })});
  }
  return fmt::format("{} -> {}\n\n{}", printable(comparison.weeks[0].name),
                     printable(comparison.weeks[1].name), table.text());
}

}  // namespace

std::string span_text(std::int64_t ms) {
  const std::int64_t seconds = (ms + kMsPerSecond / 2) / kMsPerSecond;
  if (seconds < 60) return fmt::format("{} s", seconds);
  const std::int64_t minutes = (ms + kMsPerMinute / 2) / kMsPerMinute;
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes < kMsPerDay / kMsPerMinute)
    return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  const std::int64_t hours = (ms + kMsPerHour / 2) / kMsPerHour;
  if (hours % 24 == 0) return fmt::format("{} {}", hours / 24, hours == 24 ? "day" : "days");
  return fmt::format("{} d {} h", hours / 24, hours % 24);
}

double device_hours(std::int64_t milli_ms) {
  return static_cast<double>(milli_ms) / 1000 / static_cast<double>(kMsPerHour);
}

MainCause main_cause(const QueueWeek& queue) {
  CauseTimes sums{};
  for (const CauseTimes& day : queue.waited) {
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums.at(i) += day.at(i);
  }
  const std::int64_t total = std::reduce(sums.begin(), sums.end());
  if (total == 0) return {};
  const auto* const most = std::ranges::max_element(sums);
  return {.cause = static_cast<core::Cause>(most - sums.begin()),
          .percent = 100.0 * static_cast<double>(*most) / static_cast<double>(total)};
}

std::vector<ComparedQueue> compared_queues(const WeekComparison& comparison) {
  std::vector<ComparedQueue> queues;
  for (std::size_t w = 0; w < comparison.weeks.size(); ++w) {
    for (const QueueWeek& week : comparison.weeks[w].queues) {
      if (!week.leaf) continue;
      auto known = std::ranges::find(queues, week.name, &ComparedQueue::name);
      if (known == queues.end()) {
        queues.push_back({.name = week.name, .weeks = {}});
        known = queues.end() - 1;
        known->weeks.resize(comparison.weeks.size());
      }
      known->weeks[w] = &week;
    }
  }
  return queues;
}

double mean_of(const std::vector<std::int64_t>& series) {
  if (series.empty()) return 0;
  double sum = 0;
  for (const std::int64_t value : series)
    sum += static_cast<double>(value);
  return sum / static_cast<double>(series.size());
}

std::string week_table(const WeekComparison& comparison, WeekDetail detail) {
  const WeekScene& scene = *comparison.scene;
  std::string out = fmt::format(
      "{} on {}: {} node{}, {} devices, {} from {} on, seed {}\n", printable(scene.load->file),
      printable(scene.fleet_name), with_commas(static_cast<std::int64_t>(scene.fleet.size())),
      scene.fleet.size() == 1 ? "" : "s", with_commas(comparison.weeks.front().capacity / 1000),
      span_text(scene.load->horizon.count()), scenario::day_name(scene.load->first_day),
      comparison.seed);
  for (const WeekResult& week : comparison.weeks)
    out += "\n" + week_text(week, detail, scene.load->first_day);
  if (comparison.weeks.size() == 2) out += "\n" + comparison_text(comparison);
  return out +
         "\nUSED, SHARE: devices promised, and devices the queue was entitled to, on average. "
         "WAIT: from arrival to\nthe first start. WAIT NOW: jobs that wait at the end.\n";
}

}  // namespace berth::sim
