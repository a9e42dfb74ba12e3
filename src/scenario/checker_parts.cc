#include "scenario/checker_parts.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/queue/queue_tree.h"
#include "scenario/check_page.h"
#include "scenario/words.h"

namespace berth::scenario {

namespace {

constexpr std::string_view kHostname = "kubernetes.io/hostname";

// A part that the verdict should have; null: it has none.
template <typename Page>
void check_part(const std::optional<ExpectFigures>& expect, const Named& subject,
                std::string_view what, std::span<const Figure<Page>> figures, const Page* page,
                std::vector<Check>& checks) {
  if (!expect) return;
  if (page == nullptr) {
    checks.push_back({.place = subject.place,
                      .met = false,
                      .subject = subject.text,
                      .wanted = fmt::format("a verdict with {}", what),
                      .found = "none in it",
                      .detail = ""});
    return;
  }
  ExpectFigures figures_of = *expect;
  figures_of.subject = {fmt::format("{}: {}", subject.text, what), subject.place};
  check_page(figures_of, figures, *page, checks);
}

template <typename T>
const T* address(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

std::string eviction_text(std::string_view uid, core::Evicted::Rule rule,
                          std::string_view beneficiary, std::string_view moves_to) {
  return fmt::format("{} by {}{}{}{}{}", uid, rule_name(rule), beneficiary.empty() ? "" : " for ",
                     beneficiary, moves_to.empty() ? "" : " to ", moves_to);
}

std::string domain_of(const core::Node& node, const std::string& level) {
  const auto label = node.labels.find(level);
  if (label != node.labels.end()) return label->second;
  return level == kHostname ? node.name : "";
}

}  // namespace

void check_parts(const ExpectWorkload& expect, const core::Verdict* verdict,
                 std::vector<Check>& checks) {
  static const core::Verdict kNothing;
  const core::Verdict& found = verdict == nullptr ? kNothing : *verdict;
  check_part(expect.gang, expect.uid, "gang", gang_figures(), address(found.gang), checks);
  check_part(expect.topology, expect.uid, "topology", topology_figures(), address(found.topology),
             checks);
  check_part(expect.preemption, expect.uid, "victims", preemption_figures(),
             address(found.preemption), checks);
  for (const ExpectQuota& wanted : expect.quota) {
    const auto row = std::ranges::find_if(found.quota_chain, [&wanted](const auto& one) {
      return one.queue == wanted.queue.text && one.resource == wanted.dimension.text;
    });
    check_part<core::Verdict::QuotaRow>(wanted.figures, expect.uid, wanted.figures.subject.text,
                                        quota_figures(),
                                        row == found.quota_chain.end() ? nullptr : &*row, checks);
  }
  if (expect.search_complete) {
    const auto text = [](bool complete) {
      return complete ? "a whole search" : "a search cut off";
    };
    checks.push_back(
        {.place = expect.uid.place,
         .met = verdict != nullptr && *expect.search_complete == verdict->search_complete,
         .subject = expect.uid.text,
         .wanted = text(*expect.search_complete),
         .found = verdict == nullptr ? "no verdict" : text(verdict->search_complete),
         .detail = ""});
  }
}

void check_evictions(const ExpectEvictions& expect, const Session& session,
                     std::vector<Check>& checks) {
  std::vector<const Session::Eviction*> found;
  std::vector<std::string> texts;
  for (const Session::Eviction& eviction : session.answers().evictions) {
    found.push_back(&eviction);
    texts.push_back(
        eviction_text(eviction.uid, eviction.rule, eviction.beneficiary, eviction.moves_to));
  }
  const std::string all =
      texts.empty() ? "no evictions" : fmt::format("{}", fmt::join(texts, "; "));
  for (const ExpectEviction& wanted : expect.evictions) {
    const auto match = std::ranges::find_if(found, [&wanted](const Session::Eviction* eviction) {
      return eviction->uid == wanted.uid.text && eviction->rule == wanted.rule &&
             eviction->beneficiary == wanted.beneficiary &&
             (!wanted.moves_to || eviction->moves_to == *wanted.moves_to);
    });
    const bool met = match != found.end();
    checks.push_back(
        {.place = wanted.uid.place,
         .met = met,
         .subject = "the step",
         .wanted = "evicted " + eviction_text(wanted.uid.text, wanted.rule, wanted.beneficiary,
                                              wanted.moves_to.value_or("")),
         .found = all,
         .detail = ""});
    if (!met) continue;
    for (const std::string& part : wanted.says) {
      const std::string text = session.world().shorten((*match)->text);
      checks.push_back({.place = wanted.uid.place,
                        .met = text.find(part) != std::string::npos,
                        .subject = wanted.uid.text,
                        .wanted = fmt::format("told \"{}\"", part),
                        .found = fmt::format("\"{}\"", text),
                        .detail = ""});
    }
    found.erase(match);
  }
  checks.push_back({.place = expect.place,
                    .met = session.answers().evictions.size() == expect.evictions.size(),
                    .subject = "the step",
                    .wanted = fmt::format("{} evictions", expect.evictions.size()),
                    .found = fmt::format("{}", all),
                    .detail = ""});
}

void check_domains(const ExpectDomains& expect, const Session& session,
                   std::vector<Check>& checks) {
  std::set<std::string> domains;
  for (const Named& name : expect.workloads) {
    const core::Grant* grant = session.engine().grant(name.text);
    if (grant == nullptr) {
      checks.push_back({.place = name.place,
                        .met = false,
                        .subject = name.text,
                        .wanted = "a place in some " + expect.level,
                        .found = "no grant",
                        .detail = ""});
      continue;
    }
    const core::Node& node = session.engine().fleet().node(grant->node);
    const std::string domain = domain_of(node, expect.level);
    domains.insert(domain.empty() ? fmt::format("none ({})", node.name) : domain);
  }
  if (expect.are) {
    checks.push_back({.place = expect.place,
                      .met = std::ranges::equal(domains, *expect.are),
                      .subject = "the step",
                      .wanted = fmt::format("{} {}", expect.level, fmt::join(*expect.are, ", ")),
                      .found = fmt::format("{} {}", expect.level, fmt::join(domains, ", ")),
                      .detail = ""});
  }
  if (expect.count) {
    checks.push_back({.place = expect.place,
                      .met = *expect.count == static_cast<std::int64_t>(domains.size()),
                      .subject = "the step",
                      .wanted = fmt::format("{} domains of level {}", *expect.count, expect.level),
                      .found = fmt::format("{}: {}", domains.size(), fmt::join(domains, ", ")),
                      .detail = ""});
  }
}

Result<void> check_queue(const ExpectQuota& expect, const Session& session, std::string_view file,
                         std::vector<Check>& checks) {
  const core::QueueTree& tree = session.engine().queues();
  const auto queue = tree.find(expect.queue.text);
  if (!queue) {
    return yaml::error_at(file, expect.queue.place.line, expect.queue.place.column,
                          fmt::format("'{}' is no queue here", expect.queue.text));
  }
  const std::string& name = expect.dimension.text;
  const auto dimension =
      tree.dimension(std::string_view(name).substr(0, name.rfind('/')), expect.figures.unit);
  if (!dimension) {
    return yaml::error_at(file, expect.dimension.place.line, expect.dimension.place.column,
                          fmt::format("no queue names the dimension '{}'", name));
  }
  check_page(expect.figures, queue_figures(), tree.figures(*queue, *dimension), checks);
  return success();
}

}  // namespace berth::scenario
