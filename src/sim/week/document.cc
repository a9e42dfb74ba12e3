// The document of weeks: JSON and YAML.
#include <fmt/format.h>

#include "sim/week/output.h"

namespace berth::sim {

namespace {

Document seconds(std::int64_t ms) { return Document::fixed(static_cast<double>(ms) / 1000, 3); }

Document hours(std::int64_t milli_ms) { return Document::fixed(device_hours(milli_ms), 3); }

Document numbers(const std::vector<std::int64_t>& values) {
  Document list = Document::array();
  for (const std::int64_t value : values)
    list.push(value);
  return list;
}

Document waits_document(const QueueWeek& queue) {
  const auto quantile = [&](int percent) {
    return queue.waits.empty() ? Document() : seconds(wait_quantile(queue.waits, percent));
  };
  return Document::object()
      .add("count", queue.waits.size())
      .add("p50_s", quantile(50))
      .add("p95_s", quantile(95))
      .add("max_s", quantile(100));
}

// By day: cause -> hours that jobs waited for it.
Document waited_document(const QueueWeek& queue) {
  Document days = Document::array();
  for (const CauseTimes& day : queue.waited) {
    Document causes = Document::object();
    for (std::size_t i = 0; i < day.size(); ++i) {
      if (day.at(i) == 0) continue;
      const auto cause = static_cast<core::Cause>(i);
      causes.add(cause == core::Cause::none ? "NotYetTried" : std::string(core::cause_name(cause)),
                 Document::fixed(static_cast<double>(day.at(i)) / 3'600'000, 3));
    }
    days.push(std::move(causes));
  }
  return days;
}

Document evictions_document(const QueueWeek& queue) {
  Document groups = Document::array();
  for (const EvictionGroup& group : queue.evictions) {
    groups.push(Document::object()
                    .add("rule", rule_name(group.rule))
                    .add("beneficiary", group.beneficiary)
                    .add("count", group.jobs)
                    .add("lost_device_hours", hours(group.lost))
                    .add("example", group.example));
  }
  return groups;
}

Document longest_document(const QueueWeek& queue, std::size_t first_day) {
  Document waits = Document::array();
  for (const LongWait& wait : queue.longest) {
    waits.push(Document::object()
                   .add("job", wait.uid)
                   .add("from", scenario::clock_text(wait.from, first_day))
                   .add("from_s", seconds(wait.from.ms()))
                   .add("wait_s", seconds(wait.wait().count()))
                   .add("started", wait.started)
                   .add("cause", core::cause_name(wait.cause))
                   .add("asked_s", wait.asked_at ? seconds(wait.asked_at->ms()) : Document())
                   .add("says", wait.sentence));
  }
  return waits;
}

Document never_document(const QueueWeek& queue) {
  Document groups = Document::array();
  for (const NeverGroup& group : queue.never) {
    groups.push(Document::object()
                    .add("cause", core::cause_name(group.cause))
                    .add("count", group.jobs)
                    .add("example", group.example));
  }
  return groups;
}

Document shares_document(const WeekResult& week, const QueueWeek& queue) {
  Document shares = Document::array();
  for (std::size_t d = 0; d < week.dimensions.size(); ++d) {
    const ShareSeries& series = queue.shares[d];
    shares.push(Document::object()
                    .add("dimension", week.dimensions[d].name)
                    .add("used", numbers(series.used))
                    .add("asked", numbers(series.asked))
                    .add("effective_deserved", numbers(series.deserved))
                    .add("entitlement", numbers(series.fair)));
  }
  return shares;
}

Document queue_document(const WeekResult& week, const QueueWeek& queue, std::size_t first_day) {
  Document document = Document::object();
  document.add("name", queue.name)
      .add("path", queue.path)
      .add("leaf", queue.leaf)
      .add("held", queue.held)
      .add("shares", shares_document(week, queue));
  if (!queue.leaf) return document;
  return document
      .add("jobs", Document::object()
                       .add("submitted", queue.submitted)
                       .add("started", queue.started)
                       .add("finished", queue.finished)
                       .add("evicted", queue.evicted)
                       .add("waiting_at_end", queue.waiting_at_end)
                       .add("running_at_end", queue.running_at_end))
      .add("device_hours", Document::object()
                               .add("delivered", hours(queue.delivered))
                               .add("lost", hours(queue.lost)))
      .add("waits", waits_document(queue))
      .add("waited_hours_by_day", waited_document(queue))
      .add("evictions", evictions_document(queue))
      .add("never", never_document(queue))
      .add("longest_waits", longest_document(queue, first_day));
}

Document run_document(const WeekResult& week, std::size_t first_day) {
  Document queues = Document::array();
  for (const QueueWeek& queue : week.queues)
    queues.push(queue_document(week, queue, first_day));
  Document times = Document::array();
  for (const Time time : week.samples)
    times.push(time.ms() / 1000);
  return Document::object()
      .add("queues_file", week.name)
      .add("events", week.events)
      .add("utilisation_percent", Document::fixed(utilisation(week), 3))
      .add("fragmentation_percent", Document::fixed(fragmentation(week), 3))
      .add("samples_s", std::move(times))
      .add("fleet", Document::object()
                        .add("used_milli", numbers(week.fleet.used))
                        .add("free_milli", numbers(week.fleet.free))
                        .add("idle_devices", numbers(week.fleet.idle))
                        .add("most_idle_on_a_node", numbers(week.fleet.hole))
                        .add("waiting_jobs", numbers(week.fleet.waiting)))
      .add("queues", std::move(queues));
}

}  // namespace

Document week_document(const WeekComparison& comparison) {
  const WeekScene& scene = *comparison.scene;
  const scenario::Load& load = *scene.load;
  Document runs = Document::array();
  for (const WeekResult& week : comparison.weeks)
    runs.push(run_document(week, load.first_day));
  return Document::object()
      .add("version", "v1")
      .add("fleet", Document::object()
                        .add("name", scene.fleet_name)
                        .add("nodes", scene.fleet.size())
                        .add("devices", comparison.weeks.front().capacity / 1000))
      .add("load", Document::object()
                       .add("file", load.file)
                       .add("seed", comparison.seed)
                       .add("horizon_s", seconds(load.horizon.count()))
                       .add("starts", scenario::day_name(load.first_day))
                       .add("streams", load.streams.size()))
      .add("runs", std::move(runs));
}

}  // namespace berth::sim
