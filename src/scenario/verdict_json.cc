#include "scenario/verdict_json.h"

#include <chrono>
#include <span>
#include <utility>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "scenario/figures.h"

namespace berth::scenario {

namespace {

using Json = nlohmann::ordered_json;

std::string iso_time(Time time) {
  const std::int64_t second = time.ms() / 1000 - (time.ms() % 1000 < 0 ? 1 : 0);
  const std::chrono::sys_seconds at{std::chrono::seconds(second)};
  const std::int64_t milli = time.ms() - second * 1000;
  const std::string text =
      fmt::format("{:%Y-%m-%dT%H:%M:%S}", fmt::gmtime(std::chrono::system_clock::to_time_t(at)));
  return milli == 0 ? text + "Z" : fmt::format("{}.{:03}Z", text, milli);
}

Json reasons(const core::Verdict::Nodes& nodes) {
  Json counts = Json::object();
  for (std::size_t i = 1; i < core::kCauseCount; ++i) {
    if (nodes.by_reason[i] > 0) {
      counts[std::string(core::cause_name(static_cast<core::Cause>(i)))] = nodes.by_reason[i];
    }
  }
  return counts;
}

Json devices_json(const core::Verdict::Devices& devices) {
  return {{"needMiB", devices.need_mib},
          {"largestFreeMiB", devices.largest_free_mib},
          {"freeTotalMiB", devices.free_total_mib},
          {"gpusScanned", devices.scanned},
          {"fragmentation", devices.fragmentation}};
}

Json unblock_json(const core::Unblock& way) {
  switch (way.kind) {
    case core::Unblock::Kind::free_memory:
      return {{"kind", "free"}, {"mib", way.mib}, {"node", way.node}, {"device", way.device}};
    case core::Unblock::Kind::evict:
      return way.workloads.size() == 1
                 ? Json{{"kind", "evict"}, {"workload", way.workloads.front()}}
                 : Json{{"kind", "evict"}, {"workloads", way.workloads}};
    case core::Unblock::Kind::wait:
      return {
          {"kind", "wait"}, {"workload", way.workloads.front()}, {"until", iso_time(way.until)}};
  }
  return {};
}

// Every figure of a part, under the name by which scenarios expect it too.
template <typename Page>
Json page_json(std::span<const Figure<Page>> figures, const Page& page) {
  Json json = Json::object();
  for (const Figure<Page>& figure : figures) {
    const std::string name(figure.name == "best" ? "bestDomain" : figure.name);
    if (figure.kind == FigureKind::word) {
      json[name] = figure.word(page);
    } else {
      json[name] = figure.number(page);
    }
  }
  return json;
}

// Amounts of quotas are in MiB or milli.
void add_parts(Json& json, const core::Verdict& verdict) {
  if (!verdict.quota_chain.empty()) json["quotaChain"] = Json::array();
  for (const core::Verdict::QuotaRow& row : verdict.quota_chain) {
    Json link{{"queue", row.queue}, {"resource", row.resource}};
    link.update(page_json(quota_figures(), row));
    json["quotaChain"].push_back(std::move(link));
  }
  if (verdict.gang) json["gang"] = page_json(gang_figures(), *verdict.gang);
  if (verdict.topology) json["topology"] = page_json(topology_figures(), *verdict.topology);
  if (verdict.preemption) {
    Json blocked = page_json(preemption_figures(), *verdict.preemption);
    blocked.erase("considered");
    json["preemption"] = {{"considered", verdict.preemption->considered},
                          {"blockedBy", std::move(blocked)}};
  }
}

void add_waiting(Json& json, const core::Verdict& verdict) {
  if (verdict.position.has_value()) {
    const core::Verdict::Position& at = *verdict.position;
    json["position"] = {{"queue", at.queue},
                        {"pool", at.pool},
                        {"index", at.index},
                        {"ahead", {{"jobs", at.jobs_ahead}, {"gpus", at.devices_ahead}}}};
  }
  add_parts(json, verdict);
  json["nodes"] = {{"total", verdict.nodes.total}, {"byReason", reasons(verdict.nodes)}};
  if (verdict.devices.has_value()) {
    json["devices"] = devices_json(*verdict.devices);
  }
  if (verdict.eta.has_value()) {
    const bool declared = verdict.eta->basis == core::EtaEstimate::Basis::declared;
    json["eta"] = {{"basis", declared ? "declared" : "unknown"}};
    if (declared) {
      json["eta"]["at"] = iso_time(verdict.eta->at);
    }
  }
  json["search"] = {{"complete", verdict.search_complete}, {"steps", verdict.steps}};
  json["unblock"] = Json::array();
  for (const core::Unblock& way : verdict.unblock) {
    json["unblock"].push_back(unblock_json(way));
  }
}

}  // namespace

std::string verdict_json(const core::Verdict& verdict) {
  Json json{{"version", "v1"}, {"outcome", core::outcome_name(verdict.outcome)}};
  if (!verdict.reason.empty()) {
    json["reason"] = verdict.reason;
  }
  if (verdict.cause != core::Cause::none) {
    json["cause"] = core::cause_name(verdict.cause);
    json["stage"] = core::stage_name(verdict.stage);
  }
  json["summary"] = verdict.summary;
  json["since"] = iso_time(verdict.since);
  json["lastEvaluated"] = iso_time(verdict.last_evaluated);
  json["attempts"] = verdict.attempts;
  json["effectivePriority"] = verdict.effective_priority;
  if (verdict.outcome == core::Outcome::waiting || verdict.outcome == core::Outcome::never) {
    add_waiting(json, verdict);
  }
  if (!verdict.node.empty()) {
    json["node"] = verdict.node;
    json["granted"] = Json::array();
    for (const core::ChosenDevice& chosen : verdict.chosen) {
      json["granted"].push_back({{"container", chosen.container},
                                 {"uuid", chosen.uuid},
                                 {"requestMiB", chosen.request_mib},
                                 {"limitMiB", chosen.limit_mib}});
    }
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace berth::scenario
