#include "scenario/checker.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/ledger/ledger.h"
#include "scenario/check_page.h"
#include "scenario/checker_parts.h"
#include "scenario/words.h"

namespace berth::scenario {

namespace {

std::string listed(const std::vector<std::string>& texts) {
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string mib_text(std::int64_t mib) { return memory_text(Memory::mib(mib)); }

// The checks of one workload against one look at the engine.
class WorkloadChecker {
 public:
  WorkloadChecker(const ExpectWorkload& expect, const Session& session)
      : expect_(expect),
        session_(session),
        grant_(session.engine().grant(expect.uid.text)),
        verdict_(session.engine().explain(expect.uid.text, expect.would_help
                                                               ? core::Engine::Detail::in_full
                                                               : core::Engine::Detail::in_short)) {}

  std::vector<Check> run() {
    check_state();
    check_grant();
    check_verdict();
    check_devices();
    check_words();
    check_parts(expect_, verdict_.ok() ? &*verdict_ : nullptr, checks_);
    for (Check& check : checks_) {
      if (check.met) continue;
      check.detail = verdict_.ok() ? verdict_text(*verdict_, session_.world())
                                   : fmt::format("{}\n", found_state());
      break;
    }
    return std::move(checks_);
  }

 private:
  void add(std::string wanted, std::string found) {
    Check check{.place = expect_.uid.place, .subject = expect_.uid.text};
    check.met = wanted == found;
    check.wanted = std::move(wanted);
    check.found = std::move(found);
    checks_.push_back(std::move(check));
  }

  std::string found_state() const {
    if (!verdict_.ok()) {
      return session_.ended().contains(expect_.uid.text) ? "ended" : "unknown to the engine";
    }
    if (grant_ == nullptr) return std::string(core::outcome_name(verdict_->outcome));
    return grant_->state == core::GrantState::promised ? "promised" : "granted";
  }

  std::string found_cause() const {
    const auto text = [](core::Cause cause) {
      return cause == core::Cause::none ? "none" : std::string(core::cause_name(cause));
    };
    if (verdict_.ok()) return text(verdict_->cause);
    const auto ended = session_.ended().find(expect_.uid.text);
    return text(ended == session_.ended().end() ? core::Cause::none : ended->second);
  }

  void check_state() {
    if (expect_.state) add(std::string(state_name(*expect_.state)), found_state());
    if (expect_.cause) add("cause " + *expect_.cause, "cause " + found_cause());
    if (expect_.since) {
      add("since " + time_text(*expect_.since),
          verdict_.ok() ? "since " + time_text(verdict_->since) : "no verdict");
    }
  }

  void check_grant() {
    std::vector<std::string> devices;
    std::set<std::string> requests;
    std::set<std::string> limits;
    if (grant_ != nullptr) {
      const core::Fleet& fleet = session_.engine().fleet();
      for (const core::ContainerGrant& container : grant_->containers) {
        for (const core::DeviceShare& share : container.shares) {
          devices.push_back(session_.world().short_name(fleet.uuid(share.device)));
          requests.insert(mib_text(share.request_mib));
          limits.insert(mib_text(share.limit_mib));
        }
      }
    }
    if (expect_.on) {
      std::vector<std::string> wanted;
      for (const std::string& device : *expect_.on) {
        const auto uuid = session_.world().uuid_of(device);
        wanted.push_back(uuid ? session_.world().short_name(*uuid) : device);
      }
      add("on " + listed(wanted), "on " + listed(devices));
    }
    if (expect_.node) {
      add("on node " + *expect_.node,
          grant_ == nullptr ? "no grant"
                            : "on node " + session_.engine().fleet().node(grant_->node).name);
    }
    if (expect_.request) {
      add("request " + memory_text(*expect_.request),
          fmt::format("request {}", fmt::join(requests, " and ")));
    }
    if (expect_.limit) {
      add("limit " + memory_text(*expect_.limit),
          fmt::format("limit {}", fmt::join(limits, " and ")));
    }
  }

  void check_verdict() {
    const bool known = verdict_.ok();
    if (expect_.stage) {
      add("stage " + *expect_.stage,
          known ? fmt::format("stage {}", core::stage_name(verdict_->stage)) : "no verdict");
    }
    if (expect_.reason) {
      add("reason " + *expect_.reason, known ? "reason " + verdict_->reason : "no verdict");
    }
    if (expect_.priority) {
      add(fmt::format("priority {}", *expect_.priority),
          known ? fmt::format("priority {}", verdict_->effective_priority) : "no verdict");
    }
    if (expect_.position) {
      add(fmt::format("position {}", *expect_.position),
          known && verdict_->position ? fmt::format("position {}", verdict_->position->index)
                                      : "no position");
    }
    if (expect_.eta) {
      const auto text = [](const std::optional<Time>& at) {
        return "eta " + (at ? time_text(*at) : std::string("unknown"));
      };
      std::string found = "no eta";
      if (known && verdict_->eta) {
        const bool unknown = verdict_->eta->basis == core::EtaEstimate::Basis::unknown;
        found = text(unknown ? std::optional<Time>() : verdict_->eta->at);
      }
      add(text(*expect_.eta), std::move(found));
    }
    if (expect_.nodes) {
      std::map<std::string, std::int64_t> counts;
      for (std::size_t i = 0; known && i < core::kCauseCount; ++i) {
        const std::int64_t count = verdict_->nodes.by_reason[i];
        if (count != 0) counts[std::string(core::cause_name(static_cast<core::Cause>(i)))] = count;
      }
      add(fmt::format("nodes {}", *expect_.nodes), fmt::format("nodes {}", counts));
    }
  }

  void check_devices() {
    static const core::Verdict::Devices kNothing;
    const bool known = verdict_.ok() && verdict_->devices;
    const core::Verdict::Devices& devices = known ? *verdict_->devices : kNothing;
    const auto compare = [&](std::string_view what, const std::optional<Memory>& wanted,
                             std::int64_t found_mib) {
      if (!wanted) return;
      add(fmt::format("{} {}", what, memory_text(*wanted)),
          known ? fmt::format("{} {}", what, mib_text(found_mib)) : "no figures of devices");
    };
    compare("need", expect_.need, devices.need_mib);
    compare("largest free", expect_.largest_free, devices.largest_free_mib);
    compare("free in total", expect_.free_total, devices.free_total_mib);
    if (expect_.largest_free_on) {
      add("largest free on " + *expect_.largest_free_on,
          known ? "largest free on " + session_.world().short_name(devices.largest_free_uuid)
                : "no figures of devices");
    }
    if (expect_.fragmentation) {
      add(fmt::format("fragmentation {}", *expect_.fragmentation),
          known ? fmt::format("fragmentation {}", devices.fragmentation) : "no figures of devices");
    }
  }

  void check_words() {
    const std::string message = verdict_.ok() ? message_text(*verdict_, session_.world()) : "";
    if (expect_.summary) {
      add(fmt::format("summary \"{}\"", *expect_.summary),
          fmt::format("summary \"{}\"",
                      verdict_.ok() ? session_.world().shorten(verdict_->summary) : ""));
    }
    for (const std::string& part : expect_.says.value_or(std::vector<std::string>{})) {
      const std::string wanted = fmt::format("a message with \"{}\"", part);
      const bool said = message.find(part) != std::string::npos;
      add(wanted, said ? wanted : fmt::format("\"{}\"", message));
    }
    std::vector<std::string> helps;
    if (verdict_.ok()) {
      for (const core::Unblock& unblock : verdict_->unblock) {
        helps.push_back(unblock_text(unblock, session_.world()));
      }
    }
    for (const std::string& help : expect_.would_help.value_or(std::vector<std::string>{})) {
      const bool named = std::ranges::find(helps, help) != helps.end();
      add(fmt::format("\"{}\" among what would help", help),
          named ? fmt::format("\"{}\" among what would help", help) : listed(helps));
    }
  }

  const ExpectWorkload& expect_;
  const Session& session_;
  const core::Grant* grant_;
  Result<core::Verdict> verdict_;
  std::vector<Check> checks_;
};

Error unknown_name(const Named& name, std::string_view kind, std::string_view file) {
  return yaml::error_at(file, name.place.line, name.place.column,
                        fmt::format("'{}' is no {} of the fleet here", name.text, kind));
}

Result<void> check_books(const Expect& expect, const Session& session, std::string_view file,
                         std::vector<Check>& checks) {
  const core::Fleet& fleet = session.engine().fleet();
  for (const ExpectFigures& device : expect.devices) {
    const auto uuid = session.world().uuid_of(device.subject.text);
    const core::DeviceId id = uuid ? fleet.find_device(*uuid) : core::DeviceId::none();
    if (id.is_none() || !fleet.present(id)) return unknown_name(device.subject, "device", file);
    const core::Ledger& ledger = session.engine().ledger();
    const core::DeviceFace face = ledger.faces(fleet.node_of(id))[fleet.place_of(id)];
    check_page(device, device_figures(), DevicePage{&ledger.book(id), &face}, checks);
  }
  for (const ExpectFigures& node : expect.nodes) {
    const core::NodeId id = fleet.find_node(node.subject.text);
    if (id.is_none() || !fleet.present(id)) return unknown_name(node.subject, "node", file);
    check_page(node, node_figures(), session.engine().ledger().node(id), checks);
  }
  return success();
}

void check_step(const Expect& expect, const Session& session, std::vector<Check>& checks) {
  const auto compare = [&](const auto& wanted, std::string_view what,
                           const std::vector<std::string>& found) {
    if (!wanted) return;
    checks.push_back({.place = wanted->first,
                      .met = wanted->second == found,
                      .subject = "the step",
                      .wanted = fmt::format("{} {}", what, listed(wanted->second)),
                      .found = fmt::format("{} {}", what, listed(found)),
                      .detail = ""});
  };
  std::vector<std::string> order;
  for (const core::WaitingItem& item : session.engine().waiting())
    order.emplace_back(item.uid);
  compare(expect.order, "order", order);
  compare(expect.decisions, "decisions", session.answers().decisions);
  compare(expect.notices, "notices", session.answers().notices);
  if (expect.actions) {
    checks.push_back({.place = expect.actions->first,
                      .met = expect.actions->second == session.answers().actions,
                      .subject = "the step",
                      .wanted = fmt::format("{} actions", expect.actions->second),
                      .found = fmt::format("{} actions", session.answers().actions),
                      .detail = ""});
  }
}

}  // namespace

Result<std::vector<Check>> check_expectations(const Expect& expect, const Session& session,
                                              std::string_view file) {
  std::vector<Check> checks;
  for (const ExpectWorkload& workload : expect.workloads) {
    for (Check& check : WorkloadChecker(workload, session).run())
      checks.push_back(std::move(check));
  }
  TRY_VOID(check_books(expect, session, file, checks));
  for (const ExpectQuota& queue : expect.queues) {
    TRY_VOID(check_queue(queue, session, file, checks));
  }
  for (const ExpectDomains& domains : expect.domains)
    check_domains(domains, session, checks);
  if (expect.evictions) check_evictions(*expect.evictions, session, checks);
  check_step(expect, session, checks);
  return checks;
}

}  // namespace berth::scenario
