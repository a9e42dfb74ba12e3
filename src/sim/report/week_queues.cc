// The sections of the queues: shares over time, waiting by day and cause, the longest waits.
#include <algorithm>

#include <fmt/format.h>

#include "sim/report/svg.h"
#include "sim/report/week_parts.h"

namespace berth::sim {

namespace {

constexpr std::size_t kOpenQueues = 8;  // more are folded, so that a page of hundreds can be read

double unit_of(core::DimensionKind kind) {
  return kind == core::DimensionKind::memory ? 1024 : 1000;
}

std::string_view unit_word(core::DimensionKind kind) {
  return kind == core::DimensionKind::memory ? "GiB" : "devices";
}

const QueueWeek* named(const WeekResult& week, const std::string& name) {
  const auto found = std::ranges::find(week.queues, name, &QueueWeek::name);
  return found == week.queues.end() ? nullptr : &*found;
}

std::size_t dimension_of(const WeekResult& week, const std::string& name) {
  const auto found = std::ranges::find(week.dimensions, name, &WeekDimension::name);
  return static_cast<std::size_t>(found - week.dimensions.begin());
}

bool says_anything(const ShareSeries& series) {
  const auto any = [](const std::vector<std::int64_t>& values) {
    return std::ranges::any_of(values, [](std::int64_t value) { return value != 0; });
  };
  return any(series.used) || any(series.asked);
}

// The dimensions that some week has, each once, all devices first.
std::vector<WeekDimension> dimensions_of(const WeekPage& page) {
  std::vector<WeekDimension> all;
  for (const WeekResult& week : page.comparison->weeks) {
    for (const WeekDimension& dimension : week.dimensions) {
      if (std::ranges::find(all, dimension.name, &WeekDimension::name) == all.end())
        all.push_back(dimension);
    }
  }
  return all;
}

class QueueSection {
 public:
  QueueSection(const WeekPage& page, const QueueWeek& queue, std::size_t number)
      : page_(page), queue_(queue), number_(number) {
    for (const WeekResult& week : page.comparison->weeks)
      weeks_.push_back(named(week, queue.name));
  }

  std::string html(bool open) const {
    std::string body = fmt::format(
        "<details class=\"queue p{}\"{}>\n<summary><h3>{}</h3><span class=\"path\">{}</span>"
        "</summary>\n<div style=\"color:var(--ink)\">\n",
        number_ % 9, open ? " open" : "", html_escaped(queue_.name), html_escaped(queue_.path));
    if (!queue_.held.empty()) {
      body += fmt::format("<p><b>On hold:</b> {}</p>\n", html_escaped(queue_.held));
    }
    for (const WeekDimension& dimension : dimensions_of(page_))
      body += shares(dimension);
    if (queue_.leaf) body += waited() + longest();
    return body + "</div>\n</details>\n";
  }

 private:
  // Of one dimension: one figure per week, on the same axis.
  std::string shares(const WeekDimension& dimension) const {
    std::vector<const ShareSeries*> series(weeks_.size());
    std::vector<const ShareSeries*> present;
    for (std::size_t w = 0; w < weeks_.size(); ++w) {
      const WeekResult& week = page_.comparison->weeks[w];
      const std::size_t at = dimension_of(week, dimension.name);
      if (weeks_[w] == nullptr || at == week.dimensions.size()) continue;
      series[w] = &weeks_[w]->shares[at];
      if (says_anything(*series[w])) present.push_back(series[w]);
    }
    if (present.empty()) return "";
    const double unit = unit_of(dimension.kind);
    const double top = share_top(present, unit);
    std::string html = fmt::format("<h4>{}, in {}</h4>\n", html_escaped(dimension.name),
                                   unit_word(dimension.kind));
    for (std::size_t w = 0; w < weeks_.size(); ++w) {
      if (series[w] == nullptr || std::ranges::count(present, series[w]) == 0) continue;
      if (page_.pair())
        html += fmt::format("<div class=\"what\">{}</div>\n", html_escaped(page_.names[w]));
      html += share_figure(frame(1040, dimension.name == "*/devices" ? 190 : 130),
                           {.title = fmt::format("{} of queue {} under {}", dimension.name,
                                                 queue_.name, page_.names[w]),
                            .series = series[w],
                            .unit = unit,
                            .top = top,
                            .css = css()});
    }
    return html;
  }

  std::string waited() const {
    std::vector<const std::vector<CauseTimes>*> all;
    for (const QueueWeek* week : weeks_) {
      if (week != nullptr) all.push_back(&week->waited);
    }
    const double top = waited_top(all);
    std::string html = "<h4>Hours of waiting, day by day, by cause</h4>\n<div class=\"pair\">\n";
    for (std::size_t w = 0; w < weeks_.size(); ++w) {
      if (weeks_[w] == nullptr) continue;
      html += fmt::format(
          "<div><b>{}</b>{}</div>\n", page_.pair() ? html_escaped(page_.names[w]) : "",
          waited_figure(
              frame(page_.pair() ? 506 : 720, 150),
              {.title = fmt::format("Waiting in queue {} under {}", queue_.name, page_.names[w]),
               .days = &weeks_[w]->waited,
               .causes = page_.causes,
               .top_hours = top}));
    }
    return html + "</div>\n";
  }

  std::string longest() const {
    std::string html;
    for (std::size_t w = 0; w < weeks_.size(); ++w) {
      if (weeks_[w] == nullptr || weeks_[w]->longest.empty()) continue;
      html += fmt::format(
          "<details{}><summary class=\"what\">The longest waits of each day{}</summary>\n"
          "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">arrived</th>"
          "<th scope=\"col\" class=\"text\">job</th><th scope=\"col\">waited</th>"
          "<th scope=\"col\" class=\"text\">why, in the words of its verdict</th></tr></thead>\n"
          "<tbody>\n",
          number_ < kOpenQueues ? " open" : "",
          page_.pair() ? ", " + html_escaped(page_.names[w]) : "");
      for (const LongWait& wait : weeks_[w]->longest)
        html += wait_row(wait);
      html += "</tbody></table></div></details>\n";
    }
    return html.empty() ? "<p>Nobody waited as long as a minute.</p>\n" : html;
  }

  std::string wait_row(const LongWait& wait) const {
    constexpr std::size_t kMostUnbroken = 30;  // longer names break at their hyphens
    const std::size_t first_day = page_.comparison->scene->load->first_day;
    const std::string why = wait.asked_at
                                ? fmt::format("{} <small>({})</small>", html_escaped(wait.sentence),
                                              scenario::clock_text(*wait.asked_at, first_day))
                                : html_escaped(cause_phrase(wait.cause));
    return fmt::format(
        "<tr><th scope=\"row\">{}</th><td class=\"text{}\">{}</td><td>{}{}</td>"
        "<td class=\"says\">{}</td></tr>\n",
        scenario::clock_text(wait.from, first_day), wait.uid.size() <= kMostUnbroken ? " name" : "",
        html_escaped(wait.uid), span_text(wait.wait().count()), wait.started ? "" : ", still waits",
        why);
  }

  WeekFrame frame(double width, double height) const {
    return {.horizon = page_.comparison->weeks.front().horizon,
            .first_day = page_.comparison->scene->load->first_day,
            .width = width,
            .height = height};
  }

  std::string_view css() const {
    static constexpr std::string_view kClasses[] = {"p0", "p1", "p2", "p3", "p4",
                                                    "p5", "p6", "p7", "p8"};
    return kClasses[number_ % 9];
  }

  const WeekPage& page_;
  const QueueWeek& queue_;
  std::size_t number_;
  std::vector<const QueueWeek*> weeks_;
};

}  // namespace

std::string week_queue_sections(const WeekPage& page) {
  std::string html;
  std::size_t number = 0;
  for (const ComparedQueue& leaf : page.leaves) {
    const auto week =
        std::ranges::find_if(leaf.weeks, [](const QueueWeek* each) { return each != nullptr; });
    html += QueueSection(page, **week, number).html(number < kOpenQueues);
    ++number;
  }
  return html;
}

}  // namespace berth::sim
