#include "sim/report/page.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "sim/output.h"
#include "sim/report/figures.h"
#include "sim/report/svg.h"

namespace berth::sim {

namespace {

// Means over ten seeds as published for FGD (placement page, 6), to stand beside our own runs.
struct Published {
  std::string_view trace;
  std::size_t pods;
  double at100;
  double at130;
};

constexpr Published kPublishedFgd[] = {
    {"default", 8152, 95.23, 95.39},     {"cpu250", 9420, 93.20, 93.41},
    {"gpushare100", 8152, 86.64, 86.90}, {"gpuspec33", 8152, 87.84, 94.55},
    {"multigpu50", 9061, 97.09, 97.18},
};

const Published* published_for(const Scene& scene) {
  if (scene.nodes.size() != 1213 || scene.capacity != 6'212'000) return nullptr;
  for (const Published& row : kPublishedFgd) {
    if (row.trace == scene.trace && row.pods == scene.pods.size()) return &row;
  }
  return nullptr;
}

double gpus_of(const Comparison& comparison) {
  return static_cast<double>(comparison.scene->capacity) / kWholeDeviceMilli;
}

// Allocation when everything has arrived: the last point of the curve, or the state at the end.
double result_of(const PolicySummary& policy) {
  for (std::size_t i = policy.curve.size(); i-- > 0;) {
    if (policy.curve[i]) return policy.curve[i]->mean;
  }
  return policy.final_allocation;
}

std::vector<const PolicySummary*> ranked(const Comparison& comparison) {
  std::vector<const PolicySummary*> order;
  for (const PolicySummary& policy : comparison.policies)
    order.push_back(&policy);
  std::ranges::stable_sort(order, std::greater{},
                           [](const PolicySummary* policy) { return result_of(*policy); });
  return order;
}

std::string whole(double number) { return with_commas(static_cast<std::int64_t>(number + 0.5)); }

std::string cell(const std::optional<double>& value, int decimals = 2) {
  return value ? fmt::format("<td>{:.{}f}</td>", *value, decimals)
               : std::string("<td title=\"not reached by every run\">–</td>");
}

}  // namespace

std::string headline(const Comparison& comparison) {
  const std::vector<const PolicySummary*> order = ranked(comparison);
  const double gpus = gpus_of(comparison);
  const PolicySummary& best = *order.front();
  const double result = result_of(best);
  std::string text = fmt::format("{} fills {:.2f} % of {} GPUs", best.policy, result, whole(gpus));
  if (order.size() > 1) {
    const PolicySummary& next = *order[1];
    const double ahead = result - result_of(next);
    text += ahead < 0.005 ? fmt::format(", as much as {}", next.policy)
                          : fmt::format(", {:.2f} points or {} GPUs more than {}", ahead,
                                        whole(ahead * gpus / 100), next.policy);
  }
  if (comparison.bounds && comparison.bounds->no_reject >= result) {
    text += fmt::format("; {:.2f} points below what is possible without refusing work that fits",
                        comparison.bounds->no_reject - result);
  }
  return text + ".";
}

namespace {

std::string head(const Comparison& comparison) {
  const Scene& scene = *comparison.scene;
  const std::size_t seeds = comparison.seeds.size();
  const std::string title = fmt::format("GPU packing report: {}", scene.trace);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<header>\n"
      "<p class=\"kicker\">{0}</p>\n<h1>{2}</h1>\n",
      html_escaped(title), page_style(), html_escaped(headline(comparison)));
  html += fmt::format(
      "<p class=\"lead\">{} pods of trace <b>{}</b> arrive until {} % of the fleet has been asked "
      "for, on {} nodes with {} GPUs; {}.</p>\n</header>\n",
      with_commas(static_cast<std::int64_t>(scene.pods.size())), html_escaped(scene.trace),
      comparison.arrival_percent, with_commas(static_cast<std::int64_t>(scene.nodes.size())),
      whole(gpus_of(comparison)),
      seeds == 1 ? fmt::format("one order of arrival (seed {})", comparison.seeds.front())
                 : fmt::format("mean of {} orders of arrival", seeds));
  return html;
}

std::string cards(const Comparison& comparison) {
  const double gpus = gpus_of(comparison);
  std::string html = "<section class=\"cards\" aria-label=\"Result per policy\">\n";
  for (std::size_t i = 0; i < comparison.policies.size(); ++i) {
    const PolicySummary& policy = comparison.policies[i];
    html += fmt::format(
        "<div class=\"card p{}\"><h2>{}</h2><p class=\"big\">{:.2f}<small> % allocated</small></p>"
        "<p>{} GPUs idle at the end<br>{} of {} pods refused</p></div>\n",
        i % kPolicyColours, html_escaped(policy.policy), result_of(policy),
        whole(gpus * (100 - policy.final_allocation) / 100), whole(policy.failed),
        whole(policy.arrivals));
  }
  if (comparison.bounds) {
    html += fmt::format(
        "<div class=\"card bound\"><h2>bound</h2><p class=\"big\">{:.2f}<small> % at "
        "most</small></p>"
        "<p>without refusing work that fits<br>{:.2f} % if work might be refused at "
        "will</p></div>\n",
        comparison.bounds->no_reject, comparison.bounds->choose_any);
  }
  return html + "</section>\n";
}

std::string numbers_table(const Comparison& comparison) {
  std::string html =
      "<div class=\"scroll\"><table>\n<caption>Allocation in percent of all GPUs when N % had been "
      "asked for</caption>\n<thead><tr><th scope=\"col\">policy</th>";
  for (const int percent : kShownPercents) {
    html += fmt::format("<th scope=\"col\">@{}</th>", percent);
  }
  html +=
      "<th scope=\"col\">lowest and highest seed</th><th scope=\"col\">refused</th></tr></thead>\n"
      "<tbody>\n";
  for (const PolicySummary& policy : comparison.policies) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", html_escaped(policy.policy));
    const CurvePoint* last = nullptr;
    for (const std::optional<CurvePoint>& point : policy.curve) {
      if (point) last = &*point;
    }
    for (const int percent : kShownPercents) {
      const auto index = static_cast<std::size_t>(percent);
      const bool reached = index < policy.curve.size() && policy.curve[index];
      html += cell(reached ? std::optional(policy.curve[index]->mean) : std::nullopt);
    }
    html += last != nullptr ? fmt::format("<td>{:.2f} – {:.2f}</td>", last->low, last->high)
                            : std::string("<td>–</td>");
    html += fmt::format("<td>{}</td></tr>\n", whole(policy.failed));
  }
  if (const Published* fgd = published_for(*comparison.scene)) {
    html += fmt::format(
        "<tr class=\"aside\"><th scope=\"row\">fgd as published (10 seeds)</th><td></td><td></td>"
        "<td>{:.2f}</td><td></td><td></td><td>{:.2f}</td><td></td><td></td></tr>\n",
        fgd->at100, fgd->at130);
  }
  return html + "</tbody></table></div>\n";
}

std::string latency_table(const Comparison& comparison) {
  std::string html =
      "<div class=\"scroll\"><table>\n<caption>Decision time, from submitting a pod to its answer"
      "</caption>\n<thead><tr><th scope=\"col\">policy</th><th scope=\"col\">decisions</th>"
      "<th scope=\"col\">median, µs</th><th scope=\"col\">99 %, µs</th>"
      "<th scope=\"col\">longest, µs</th><th scope=\"col\">per second</th></tr></thead>\n<tbody>\n";
  for (const PolicySummary& policy : comparison.policies) {
    const LatencyStats& latency = policy.latency;
    html += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{:.1f}</td><td>{:.1f}</td><td>{:.1f}</td>"
        "<td>{}</td></tr>\n",
        html_escaped(policy.policy), with_commas(latency.count()), latency.quantile_us(0.5),
        latency.quantile_us(0.99), latency.quantile_us(1), whole(latency.per_second()));
  }
  return html + "</tbody></table></div>\n";
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

std::string bound_note(const Comparison& comparison) {
  if (!comparison.bounds) {
    return " Run with <code>--bound</code> to see how far it is from what is possible.";
  }
  return fmt::format(
      " The dashed line is the bound: whoever places everything that fits first has to refuse "
      "something at {:.2f} % or earlier; what arrives later may still fill a leftover.",
      comparison.bounds->no_reject);
}

std::string curves(const Comparison& comparison) {
  const std::string band = comparison.seeds.size() > 1
                               ? " The shade spans the lowest and the highest seed."
                               : std::string();
  std::string html = section(
      {.title = "What the fleet holds as work arrives",
       .lead =
           "Share of all GPU capacity that is allocated, over the share that has been asked for." +
           band,
       .body = curve_figure(comparison, {.to = comparison.arrival_percent})});
  if (comparison.arrival_percent > 95) {
    html += section({.title = "Where the policies part",
                     .lead = "The same curve from 90 % on." + bound_note(comparison),
                     .body = curve_figure(comparison, {.from = 90,
                                                       .to = comparison.arrival_percent,
                                                       .height = 420,
                                                       .fit_values = true}) +
                             numbers_table(comparison)});
  } else {
    html += numbers_table(comparison);
  }
  return html;
}

std::string heat_maps(const Comparison& comparison) {
  std::string body = heat_legend();
  for (const PolicySummary& policy : comparison.policies) {
    const RunResult& run = comparison.runs[policy.runs.front()];
    body +=
        fmt::format("<figure><figcaption>{}, seed {}: {:.2f} % filled</figcaption>\n{}</figure>\n",
                    html_escaped(policy.policy), run.spec.seed, run.final_allocation,
                    heat_figure(*comparison.scene, run));
  }
  return section({.title = "Every device at the end of a run",
                  .lead =
                      "One column per node, one square per device, grouped by model; the fullest "
                      "nodes come first. Bright squares are capacity that nobody could use.",
                  .body = body});
}

std::string notes(const Comparison& comparison) {
  std::string seeds;
  for (std::size_t i = 0; i < comparison.seeds.size() && i < 20; ++i) {
    seeds += (i > 0 ? ", " : "") + std::to_string(comparison.seeds[i]);
  }
  if (comparison.seeds.size() > 20) seeds += ", …";
  std::string html =
      "<section class=\"notes\">\n<h2>How this was measured</h2>\n<ul>\n"
      "<li>The scheduler's own engine made every decision, driven by recorded events in virtual "
      "time; this is not a model of it.</li>\n"
      "<li>Pods arrive one by one in a random order and stay; one that fits nowhere is refused and "
      "never tried again, but counts as asked for. When the trace is used up, pods are drawn from "
      "it "
      "again (or left out, if it asks for more) until the stated share has been asked for. All "
      "policies see the same arrivals and the same order of nodes.</li>\n"
      "<li>Allocation at N % is the mean over all moments at which the share asked for rounds to "
      "N %.</li>\n"
      "<li>What a policy knows: <b>pack</b> and <b>fgd</b> know how often each kind of pod occurs "
      "in "
      "the trace, and never the order of arrival; the other policies know nothing "
      "beforehand.</li>\n";
  html += fmt::format(
      "<li>Seeds: {}. One seed is no evidence: single orders differ by some tenths of a "
      "point.</li>\n",
      seeds);
  if (published_for(*comparison.scene) != nullptr) {
    html +=
        "<li>“fgd as published” are the means of the authors' own simulator (Weng et al., Beware "
        "of "
        "Fragmentation, USENIX ATC 2023), whose arrivals were drawn by another generator: compare "
        "it "
        "with means, and compare policies with fgd run here on the same arrivals.</li>\n";
  }
  if (comparison.bounds) {
    html += fmt::format(
        "<li>The bounds come from a linear program that may split pods and pools cores and memory "
        "of "
        "equal nodes, so nothing real does better on this mix of work; a single order of arrival "
        "scatters around the mix by about 0.1 points.{}</li>\n",
        comparison.bounds->left_out == 0
            ? ""
            : fmt::format(" {} pods that fit no node, even an empty one, are left out.",
                          with_commas(comparison.bounds->left_out)));
  }
  for (const std::string& warning : comparison.scene->warnings) {
    html += "<li>" + html_escaped(warning) + ".</li>\n";
  }
  return html + "</ul>\n<p class=\"foot\">Made by berth simulate.</p>\n</section>\n";
}

}  // namespace

std::string report_page(const Comparison& comparison) {
  std::string html = head(comparison) + cards(comparison) + curves(comparison);
  html +=
      section({.title = "Why idle capacity is idle",
               .lead = "What is left at the end, seen by the work that is typical for the trace, "
                       "in percent of the fleet.",
               .body = fragmentation_figure(comparison)});
  html +=
      section({.title = "What was refused, and why",
               .lead = "Refused pods per run by kind of work; the reason is what the whole fleet "
                       "lacked at that moment.",
               .body = refusal_figure(comparison)});
  html += heat_maps(comparison);
  html +=
      section({.title = "How long a decision takes",
               .lead = "Times are from this machine and include everything between the question "
                       "and the answer; runs side by side slow each other down.",
               .body = latency_figure(comparison) + latency_table(comparison)});
  html += notes(comparison);
  html += "</main>\n<script type=\"application/json\" id=\"curves\">" + curve_data(comparison) +
          "</script>\n<script>" + std::string(page_script()) + "</script>\n</body>\n</html>\n";
  return html;
}

}  // namespace berth::sim
