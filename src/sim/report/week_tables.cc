// Tables of the week's page: what changes from one configuration to the other, figures per queue,
// and evictions.
#include <cmath>

#include <fmt/format.h>

#include "sim/output.h"
#include "sim/report/svg.h"
#include "sim/report/week_parts.h"

namespace berth::sim {

namespace {

std::string wait_cell(const QueueWeek& queue, int percent) {
  return queue.waits.empty() ? "–" : span_text(wait_quantile(queue.waits, percent));
}

// Less is better of waits and evictions, more of finished work; what hardly differs is no change.
std::string_view judged(double before, double after, bool less_is_better) {
  const double least = 0.02 * std::max(std::abs(before), std::abs(after));
  if (std::abs(after - before) <= least) return "";
  return (after < before) == less_is_better ? "better" : "worse";
}

struct Change {
  double before = 0;
  double after = 0;
  std::string before_text;
  std::string after_text;
  bool less_is_better = true;
};

std::string change_cell(const Change& change) {
  if (change.before_text == change.after_text) {
    return fmt::format("<td>{}</td>", html_escaped(change.after_text));
  }
  const std::string_view css = judged(change.before, change.after, change.less_is_better);
  return fmt::format("<td>{} → <span class=\"{}\">{}</span></td>", html_escaped(change.before_text),
                     css, html_escaped(change.after_text));
}

std::string wait_change(const QueueWeek& before, const QueueWeek& after, int percent) {
  return change_cell({.before = static_cast<double>(wait_quantile(before.waits, percent)),
                      .after = static_cast<double>(wait_quantile(after.waits, percent)),
                      .before_text = wait_cell(before, percent),
                      .after_text = wait_cell(after, percent)});
}

std::string count_change(std::int64_t before, std::int64_t after, bool less_is_better) {
  return change_cell({.before = static_cast<double>(before),
                      .after = static_cast<double>(after),
                      .before_text = with_commas(before),
                      .after_text = with_commas(after),
                      .less_is_better = less_is_better});
}

std::int64_t whole_hours(std::int64_t milli_ms) { return std::llround(device_hours(milli_ms)); }

}  // namespace

std::string week_change_table(const WeekPage& page) {
  std::string html =
      "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">queue</th>"
      "<th scope=\"col\">half start within</th><th scope=\"col\">95 % start within</th>"
      "<th scope=\"col\">longest wait</th><th scope=\"col\">jobs finished</th>"
      "<th scope=\"col\">evictions</th><th scope=\"col\">device hours</th></tr></thead>\n"
      "<tbody>\n";
  for (const ComparedQueue& queue : page.leaves) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", html_escaped(queue.name));
    const QueueWeek* before = queue.weeks[0];
    const QueueWeek* after = queue.weeks[1];
    if (before == nullptr || after == nullptr) {
      html += fmt::format("<td class=\"text\" colspan=\"6\">only in {}</td></tr>\n",
                          html_escaped(page.names[before == nullptr ? 1 : 0]));
      continue;
    }
    html += wait_change(*before, *after, 50) + wait_change(*before, *after, 95) +
            wait_change(*before, *after, 100) +
            count_change(before->finished, after->finished, false) +
            count_change(before->evicted, after->evicted, true) +
            count_change(whole_hours(before->delivered), whole_hours(after->delivered), false) +
            "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string week_numbers_table(const WeekPage& page) {
  std::string html;
  for (std::size_t w = 0; w < page.names.size(); ++w) {
    html += fmt::format(
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr><th scope=\"col\">queue"
        "</th><th scope=\"col\">devices used</th><th scope=\"col\">entitled to</th>"
        "<th scope=\"col\">jobs</th><th scope=\"col\">finished</th><th scope=\"col\">evictions</th>"
        "<th scope=\"col\">half start within</th><th scope=\"col\">95 %</th>"
        "<th scope=\"col\">longest</th><th scope=\"col\">wait at the end</th></tr></thead>\n"
        "<tbody>\n",
        html_escaped(page.names[w]));
    for (const QueueWeek& queue : page.comparison->weeks[w].queues) {
      const ShareSeries& devices = queue.shares.front();
      html += fmt::format(
          "<tr{}><th scope=\"row\" style=\"padding-left:{}px\">{}</th><td>{:.1f}</td>"
          "<td>{}</td>",
          queue.leaf ? "" : " class=\"aside\"", 18 * queue.depth, html_escaped(queue.name),
          mean_of(devices.used) / 1000,
          devices.fair.empty() ? "–" : fmt::format("{:.1f}", mean_of(devices.fair) / 1000));
      if (queue.leaf) {
        html += fmt::format(
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
            with_commas(queue.submitted), with_commas(queue.finished), with_commas(queue.evicted),
            wait_cell(queue, 50), wait_cell(queue, 95), wait_cell(queue, 100),
            with_commas(queue.waiting_at_end));
      } else {
        html += "<td></td><td></td><td></td><td></td><td></td><td></td><td></td>";
      }
      html += "</tr>\n";
    }
    html += "</tbody></table></div>\n";
  }
  return html;
}

std::string week_evictions_table(const WeekPage& page) {
  std::string html;
  for (std::size_t w = 0; w < page.names.size(); ++w) {
    std::string rows;
    for (const QueueWeek& queue : page.comparison->weeks[w].queues) {
      for (const EvictionGroup& group : queue.evictions) {
        rows += fmt::format(
            "<tr><th scope=\"row\">{}</th><td class=\"text\">{}</td><td class=\"text\">{}</td>"
            "<td>{}</td><td>{:.1f}</td><td class=\"says\">{}</td></tr>\n",
            html_escaped(queue.name), rule_name(group.rule),
            group.beneficiary.empty() ? "–" : html_escaped(group.beneficiary),
            with_commas(group.jobs), device_hours(group.lost), html_escaped(group.example));
      }
    }
    if (rows.empty()) {
      html += fmt::format("<p class=\"what\">{}: nothing was evicted.</p>\n",
                          html_escaped(page.names[w]));
      continue;
    }
    html += fmt::format(
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>"
        "<th scope=\"col\">evicted from</th><th scope=\"col\" class=\"text\">rule</th>"
        "<th scope=\"col\" class=\"text\">for</th><th scope=\"col\">times</th>"
        "<th scope=\"col\">device hours lost</th>"
        "<th scope=\"col\" class=\"text\">what the first of them was told</th></tr></thead>\n"
        "<tbody>\n{}</tbody></table></div>\n",
        html_escaped(page.names[w]), rows);
  }
  return html;
}

}  // namespace berth::sim
