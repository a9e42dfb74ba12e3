#include "sim/report/week_page.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>

#include "sim/output.h"
#include "sim/report/page.h"
#include "sim/report/svg.h"
#include "sim/report/week_parts.h"

namespace berth::sim {

namespace {

constexpr std::size_t kStackedQueues = 8;
constexpr int kSlow = 95;  // percent of the jobs, for waits in sentences

// Longest waits first, over all weeks.
std::vector<core::Cause> causes_of(const WeekComparison& comparison) {
  CauseTimes sums{};
  for (const WeekResult& week : comparison.weeks) {
    for (const QueueWeek& queue : week.queues) {
      for (const CauseTimes& day : queue.waited) {
        for (std::size_t i = 0; i < sums.size(); ++i)
          sums.at(i) += day.at(i);
      }
    }
  }
  std::vector<core::Cause> causes;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums.at(i) > 0) causes.push_back(static_cast<core::Cause>(i));
  }
  std::ranges::stable_sort(causes, std::ranges::greater{}, [&](core::Cause cause) {
    return sums.at(static_cast<std::size_t>(cause));
  });
  return causes;
}

// The last part of the path where that tells the weeks apart.
std::vector<std::string> names_of(const WeekComparison& comparison) {
  std::vector<std::string> names;
  for (const WeekResult& week : comparison.weeks)
    names.push_back(std::filesystem::path(week.name).filename().string());
  if (names.size() == 2 && names[0] == names[1]) {
    for (std::size_t i = 0; i < names.size(); ++i)
      names[i] = comparison.weeks[i].name;
  }
  return names;
}

std::int64_t evictions_of(const WeekResult& week) {
  std::int64_t sum = 0;
  for (const QueueWeek& queue : week.queues)
    sum += queue.evicted;
  return sum;
}

std::int64_t lost_of(const WeekResult& week) {
  std::int64_t sum = 0;
  for (const QueueWeek& queue : week.queues)
    sum += queue.lost;
  return sum;
}

std::string slow_wait(const QueueWeek& queue) {
  return span_text(wait_quantile(queue.waits, kSlow));
}

// The queue that waits longest; null: no queue has jobs.
const QueueWeek* slowest(const WeekResult& week) {
  const QueueWeek* found = nullptr;
  for (const QueueWeek& queue : week.queues) {
    if (!queue.leaf || queue.waits.empty()) continue;
    if (found == nullptr || wait_quantile(queue.waits, kSlow) > wait_quantile(found->waits, kSlow))
      found = &queue;
  }
  return found;
}

std::string headline_of_one(const WeekResult& week) {
  const std::string used = fmt::format("{:.0f} % of all device time is used", utilisation(week));
  const QueueWeek* queue = slowest(week);
  if (queue == nullptr) return used + ".";
  if (wait_quantile(queue->waits, kSlow) < 60'000) {
    return used +
           fmt::format(", and in every queue {} % of the jobs start within a minute.", kSlow);
  }
  return used + fmt::format("; {} waits longest: {} % of its jobs start within {}.", queue->name,
                            kSlow, slow_wait(*queue));
}

std::string headline_of_two(const WeekPage& page) {
  const ComparedQueue* most = nullptr;
  std::int64_t largest = 0;
  for (const ComparedQueue& queue : page.leaves) {
    if (queue.weeks[0] == nullptr || queue.weeks[1] == nullptr) continue;
    const std::int64_t change = std::abs(wait_quantile(queue.weeks[1]->waits, kSlow) -
                                         wait_quantile(queue.weeks[0]->waits, kSlow));
    if (most == nullptr || change > largest) {
      most = &queue;
      largest = change;
    }
  }
  const std::int64_t before = evictions_of(page.comparison->weeks[0]);
  const std::int64_t after = evictions_of(page.comparison->weeks[1]);
  const std::string evictions =
      before == after
          ? fmt::format("evictions stay at {}", with_commas(before))
          : fmt::format("evictions go from {} to {}", with_commas(before), with_commas(after));
  if (most == nullptr || largest < 60'000) {
    return fmt::format("Waits hardly change under {}; {}.", page.names[1], evictions);
  }
  return fmt::format("Under {}, {} % of the jobs of {} start within {} instead of {}; {}.",
                     page.names[1], kSlow, most->name, slow_wait(*most->weeks[1]),
                     slow_wait(*most->weeks[0]), evictions);
}

std::string head(const WeekPage& page) {
  const WeekScene& scene = *page.comparison->scene;
  const std::string file = std::filesystem::path(scene.load->file).filename().string();
  const std::string title = fmt::format("Shared cluster report: {}", file);
  std::int64_t jobs = 0;
  for (const QueueWeek& queue : page.comparison->weeks.front().queues)
    jobs += queue.submitted;
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}{2}</style>\n</head>\n<body>\n<main>\n<header>\n"
      "<p class=\"kicker\">{0}</p>\n<h1>{3}</h1>\n"
      "<p class=\"lead\">{4} jobs of <b>{5}</b> arrive within {6} on {7} nodes with {8} devices, "
      "and are shared out by {9}.</p>\n</header>\n",
      html_escaped(title), page_style(), week_style(),
      html_escaped(week_headline(*page.comparison)), with_commas(jobs), html_escaped(file),
      span_text(scene.load->horizon.count()),
      with_commas(static_cast<std::int64_t>(scene.fleet.size())),
      with_commas(page.comparison->weeks.front().capacity / 1000),
      page.pair() ? fmt::format("<b>{}</b> and, for comparison, by <b>{}</b>",
                                html_escaped(page.names[0]), html_escaped(page.names[1]))
                  : fmt::format("<b>{}</b>", html_escaped(page.names[0])));
}

std::string cards(const WeekPage& page) {
  std::string html = "<section class=\"cards\" aria-label=\"Result\">\n";
  for (std::size_t w = 0; w < page.names.size(); ++w) {
    const WeekResult& week = page.comparison->weeks[w];
    const QueueWeek* queue = slowest(week);
    html += fmt::format(
        "<div class=\"card p{}\"><h2>{}</h2><p class=\"big\">{:.1f}<small> % of device time "
        "used</small></p><p>",
        w, html_escaped(page.names[w]), utilisation(week));
    if (queue != nullptr) {
      html += fmt::format("longest waits: <b>{}</b>, {} % start within {}<br>",
                          html_escaped(queue->name), kSlow, slow_wait(*queue));
    }
    html += fmt::format(
        "{} evictions, {:.0f} device hours lost by them<br>{:.0f} % of what was free lay in parts "
        "on devices in use</p></div>\n",
        with_commas(evictions_of(week)), device_hours(lost_of(week)), fragmentation(week));
  }
  return html + "</section>\n";
}

struct Section {
  std::string_view title;
  std::string lead;  // HTML
  std::string body;  // HTML
};

std::string section(const Section& part) {
  return fmt::format("<section class=\"figure\">\n<h2>{}</h2>\n<p>{}</p>\n{}</section>\n",
                     part.title, part.lead, part.body);
}

// The leaves in the order of the page, the first few by themselves and the others together; then
// what nobody used.
StackFigure use_of(const WeekPage& page, const WeekResult& week, std::size_t number) {
  StackFigure figure{
      .title = fmt::format("Devices in use, queue by queue, under {}", page.names[number]),
      .layers = {},
      .top = static_cast<double>(week.capacity) / 1000,
      .top_label = fmt::format("{} devices", with_commas(week.capacity / 1000))};
  std::vector<std::int64_t> others(week.samples.size());
  for (std::size_t i = 0; i < page.leaves.size(); ++i) {
    const QueueWeek* queue = page.leaves[i].weeks[number];
    if (queue == nullptr) continue;
    const std::vector<std::int64_t>& used = queue->shares.front().used;
    if (i < kStackedQueues) {
      figure.layers.push_back({.css = fmt::format("p{}", i), .values = used});
      continue;
    }
    for (std::size_t s = 0; s < others.size(); ++s)
      others[s] += used[s];
  }
  if (page.leaves.size() > kStackedQueues) {
    figure.layers.push_back({.css = "p8", .values = std::move(others)});
  }
  std::vector<std::int64_t> parts;
  for (std::size_t s = 0; s < week.samples.size(); ++s)
    parts.push_back(week.fleet.free[s] - 1000 * week.fleet.idle[s]);
  figure.layers.push_back({.css = "parts", .values = std::move(parts)});
  return figure;
}

std::string overview(const WeekPage& page) {
  std::string body = "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < page.leaves.size() && i < kStackedQueues; ++i) {
    body += fmt::format("<li><span class=\"swatch p{}\"></span>{}</li>\n", i,
                        html_escaped(page.leaves[i].name));
  }
  if (page.leaves.size() > kStackedQueues) {
    body += fmt::format("<li><span class=\"swatch p8\"></span>{} others</li>\n",
                        page.leaves.size() - kStackedQueues);
  }
  body += "<li><span class=\"swatch parts\"></span>free, but on devices in use</li></ul>\n";
  for (std::size_t w = 0; w < page.names.size(); ++w) {
    const WeekResult& week = page.comparison->weeks[w];
    if (page.pair()) {
      body += fmt::format("<div class=\"what\">{}</div>\n", html_escaped(page.names[w]));
    }
    body += stack_figure({.horizon = week.horizon,
                          .first_day = page.comparison->scene->load->first_day,
                          .height = page.pair() ? 220.0 : 300.0},
                         use_of(page, week, w));
  }
  return section({.title = "Who used the cluster",
                  .lead = "Devices promised to each queue over time. White is idle.",
                  .body = body});
}

std::string queues(const WeekPage& page) {
  std::string causes = "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < page.causes.size(); ++i) {
    causes += fmt::format("<li><span class=\"swatch p{}\"></span>{}</li>\n", i % 9,
                          html_escaped(cause_phrase(page.causes[i])));
  }
  causes += "</ul>\n";
  const std::string key =
      "<ul class=\"legend p0\"><li style=\"color:var(--ink)\"><span class=\"key used "
      "p0\"></span>in "
      "use</li><li style=\"color:var(--ink)\"><span class=\"key want\"></span>asked for, not "
      "given (up to twice the rest)</li><li style=\"color:var(--ink)\"><span class=\"key "
      "fair\"></span>entitled to: its "
      "share</li><li style=\"color:var(--ink)\"><span class=\"key kept\"></span>deserves: gets it "
      "back whenever it asks</li></ul>\n";
  return section({.title = "Queue by queue",
                  .lead = "What each queue held against what it was entitled to, and why its jobs "
                          "waited. The sentences are the scheduler's own verdicts, read while the "
                          "job waited.",
                  .body = key +
                          "<p class=\"what\" style=\"margin:10px 0 2px\">Causes of "
                          "waiting</p>\n" +
                          causes + week_queue_sections(page)});
}

std::string never_note(const WeekPage& page) {
  std::string html;
  for (std::size_t w = 0; w < page.names.size(); ++w) {
    for (const QueueWeek& queue : page.comparison->weeks[w].queues) {
      for (const NeverGroup& group : queue.never) {
        html += fmt::format("<li>{} jobs of {} can never run under {}: {}</li>\n",
                            with_commas(group.jobs), html_escaped(queue.name),
                            html_escaped(page.names[w]), html_escaped(group.example));
      }
    }
  }
  return html;
}

std::string notes(const WeekPage& page) {
  const scenario::Load& load = *page.comparison->scene->load;
  return fmt::format(
      "<section class=\"notes\">\n<h2>How this was measured</h2>\n<ul>\n{}"
      "<li>The scheduler's own engine made every decision in virtual time; this is not a model of "
      "it. Everything is drawn from seed {}: the same files give the same page.</li>\n"
      "<li>Shares are sampled every {}. Waits, evictions and device hours are exact; a wait lasts "
      "from a job's arrival to its first start.</li>\n"
      "<li>An evicted job runs on for {}, loses its progress and waits again with its old age. "
      "Lost device hours are those of runs that led to nothing.</li>\n"
      "<li>Of each day and queue the {} longest waits are listed; their verdicts are read at the "
      "samples, at most a few at a time.</li>\n"
      "</ul>\n<p class=\"foot\">Made by berth simulate.</p>\n</section>\n",
      never_note(page), page.comparison->seed, span_text(load.sample.count()),
      span_text(load.grace.count()), kLongestPerDay);
}

}  // namespace

WeekPage week_page_of(const WeekComparison& comparison) {
  return {.comparison = &comparison,
          .leaves = compared_queues(comparison),
          .causes = causes_of(comparison),
          .names = names_of(comparison)};
}

std::string week_headline(const WeekComparison& comparison) {
  const WeekPage page = week_page_of(comparison);
  return page.pair() ? headline_of_two(page) : headline_of_one(comparison.weeks.front());
}

std::string week_page(const WeekComparison& comparison) {
  const WeekPage page = week_page_of(comparison);
  std::string html = head(page) + cards(page);
  if (page.pair()) {
    html += section({.title = "What changes",
                     .lead = fmt::format("The same work under <b>{}</b> → <b>{}</b>. A wait lasts "
                                         "from arrival to the first start.",
                                         html_escaped(page.names[0]), html_escaped(page.names[1])),
                     .body = week_change_table(page)});
  }
  html += overview(page) + queues(page);
  html += section({.title = "Who was evicted, and for whom",
                   .lead = "Running work that was ended, by rule and beneficiary.",
                   .body = week_evictions_table(page)});
  html += section({.title = "All figures",
                   .lead = "Devices are means over the samples.",
                   .body = week_numbers_table(page)});
  return html + notes(page) + "</main>\n</body>\n</html>\n";
}

}  // namespace berth::sim
