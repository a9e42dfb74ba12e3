#include "scenario/session.h"

#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "scenario/verdict_json.h"
#include "scenario/words.h"

namespace berth::scenario {

namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

}  // namespace

Result<Session> Session::create(core::EngineConfig config, Duration grace) {
  TRY(std::unique_ptr<core::Engine> engine, core::Engine::create(config));
  return Session(std::move(config), std::move(engine), grace);
}

Result<void> Session::start_anew() {
  told_again_.clear();
  std::set<std::string> seen;
  for (const std::string& uid : came_) {
    const auto workload = engine_->workload(uid);
    if (!workload || !seen.insert(uid).second) continue;
    if (workload->gang() != nullptr) {
      return invalid_argument(uid + " is a gang: a restart is for tasks alone");
    }
    const core::Grant* grant = engine_->grant(uid);
    if (grant == nullptr || grant->state == core::GrantState::promised) {
      told_again_.emplace_back(core::WorkloadSubmitted{*workload});
      continue;
    }
    core::GrantAdopted adopted{.workload = *workload,
                               .node = engine_->fleet().node(grant->node).name,
                               .shares = {},
                               .confirmed = grant->state != core::GrantState::granted};
    for (const core::ContainerGrant& container : grant->containers) {
      for (const core::DeviceShare& share : container.shares) {
        adopted.shares.push_back({.container = container.container,
                                  .uuid = engine_->fleet().uuid(share.device),
                                  .request_mib = share.request_mib,
                                  .limit_mib = share.limit_mib});
      }
    }
    told_again_.emplace_back(std::move(adopted));
    if (grant->state == core::GrantState::releasing) {
      told_again_.emplace_back(core::GrantReleasing{uid});
    }
    if (!grant->starting) told_again_.emplace_back(core::WorkloadInitialized{uid});
  }
  std::vector<core::Node> nodes;
  for (std::size_t i = 0; i < engine_->fleet().node_slots(); ++i) {
    if (engine_->fleet().present(core::NodeId(i))) {
      nodes.push_back(engine_->fleet().node(core::NodeId(i)));
    }
  }
  TRY(engine_, core::Engine::create(config_));
  wakes_.clear();
  leaving_.clear();
  for (core::Node& node : nodes) {
    apply(core::NodeUpserted{std::move(node)});
  }
  return success();
}

void Session::tell_again() {
  for (core::EventBody& body : std::exchange(told_again_, {})) {
    apply(std::move(body));
  }
}

void Session::note(std::string text) {
  transcript_.push_back({.time = now_, .is_event = true, .text = std::move(text)});
}

// The verdict that goes with an answer, empty where the answer is not about a known workload.
std::string Session::verdict_of(const core::Action& action) const {
  const core::WorkloadId workload =
      std::visit(Overloaded{[](const core::Granted& granted) { return granted.workload; },
                            [](const core::Promised& promised) { return promised.workload; },
                            [](const core::VerdictChanged& changed) { return changed.workload; },
                            [](const auto&) { return core::WorkloadId::none(); }},
                 action);
  if (workload.is_none()) return "";
  const auto verdict = engine_->explain(engine_->uid(workload));
  return verdict.ok() ? verdict_json(*verdict) : "";
}

void Session::apply(core::EventBody body) {
  deliver(std::move(body));
  carry_out_evictions();
}

void Session::carry_out_evictions() {
  while (!broken_ && !leaving_.empty() && leaving_.begin()->first <= now_) {
    const Leaving leaving = leaving_.extract(leaving_.begin()).mapped();
    const core::Grant* grant = engine_->grant(leaving.uid);
    if (grant == nullptr || grant->number != leaving.grant) continue;  // it went by itself
    note(fmt::format("{} is gone{}", leaving.uid, leaving.restarts ? " and waits again" : ""));
    if (leaving.restarts) {
      deliver(core::GrantLost{.uid = leaving.uid, .why = "evicted", .requeue = true});
    } else {
      deliver(core::GrantReleased{leaving.uid});
    }
    if (answers_.evictions.size() > kMostEvictions) {
      broken_ = fmt::format("more than {} evictions in one step: it does not come to rest",
                            kMostEvictions);
    }
  }
}

// A member of a gang is as its gang was submitted.
bool Session::restarts(const std::string& uid) const {
  auto workload = engine_->workload(uid);
  if (!workload) workload = engine_->workload(uid.substr(0, uid.rfind('/')));
  return !workload || workload->options().restartable;
}

void Session::deliver(core::EventBody body) {
  if (broken_) return;
  const bool comes = std::holds_alternative<core::WorkloadSubmitted>(body) ||
                     std::holds_alternative<core::GrantAdopted>(body);
  if (const auto* task = std::get_if<core::WorkloadSubmitted>(&body)) {
    came_.emplace_back(task->workload.uid());
  } else if (const auto* found = std::get_if<core::GrantAdopted>(&body)) {
    came_.emplace_back(found->workload.uid());
  }
  const std::span<const core::Action> actions = engine_->apply({now_, std::move(body)});
  known_ += comes ? 1 : 0;  // also what was refused: it only makes verify() rarer
  std::vector<std::string> texts;
  for (const core::Action& action : actions) {
    std::string text = take(action);
    if (!text.empty()) {
      transcript_.push_back({.time = now_,
                             .is_event = false,
                             .text = std::move(text),
                             .verdict = with_verdicts_ ? verdict_of(action) : ""});
    }
  }
  unverified_ = true;
  if (known_ <= kVerifyEach) verify_now();
}

void Session::verify_now() {
  if (broken_ || !std::exchange(unverified_, false)) return;
  if (const auto verified = core::verify(*engine_); !verified.ok()) {
    broken_ = verified.error().to_string();
  }
}

void Session::advance(Time to) {
  const auto next = [this]() -> std::optional<Time> {
    std::optional<Time> at;
    if (!wakes_.empty()) at = Time{*wakes_.begin()};
    if (!leaving_.empty() && (!at || leaving_.begin()->first < *at)) at = leaving_.begin()->first;
    return at;
  };
  for (auto at = next(); !broken_ && at && *at <= to; at = next()) {
    now_ = std::max(now_, *at);
    carry_out_evictions();
    if (wakes_.empty() || *wakes_.begin() > now_.ms()) continue;
    wakes_.erase(wakes_.begin(), wakes_.upper_bound(now_.ms()));
    apply(core::TimeReached{});
    wakes_.erase(wakes_.begin(), wakes_.upper_bound(now_.ms()));
  }
  if (now_ == to) return;
  now_ = to;
  apply(core::TimeReached{});
}

std::vector<std::string> Session::settle(int rounds) {
  std::vector<std::string> texts;
  for (int round = 0; round < rounds && !broken_; ++round) {
    const std::size_t before = transcript_.size();
    apply(core::TimeReached{});
    for (std::size_t i = before; i < transcript_.size(); ++i)
      texts.push_back(transcript_[i].text);
  }
  verify_now();
  return texts;
}

std::string Session::take(const core::Action& action) {
  std::string text = std::visit(
      Overloaded{
          [&](const core::Granted& granted) {
            return decide("granted", granted.workload, grant_text(granted.workload));
          },
          [&](const core::Promised& promised) {
            return decide("promised", promised.workload, grant_text(promised.workload));
          },
          [&](const core::Retracted& retracted) {
            return decide(retracted.lost ? "lost" : "retracted", retracted.workload,
                          core::cause_name(retracted.why));
          },
          [&](const core::Evicted& evicted) { return take_eviction(evicted); },
          [&](const core::VerdictChanged& changed) {
            const std::string uid(engine_->uid(changed.workload));
            const auto verdict = engine_->explain(uid, core::Engine::Detail::in_short);
            if (!verdict.ok())
              return fmt::format("{} {}", uid, core::outcome_name(changed.outcome));
            return fmt::format("{} {} {}: {}", uid, core::outcome_name(changed.outcome),
                               core::cause_name(changed.cause), message_text(*verdict, world_));
          },
          [&](const core::Ended& ended) {
            known_ -= known_ > 0 ? 1 : 0;
            ended_[std::string(engine_->uid(ended.workload))] = ended.why;
            return decide("ended", ended.workload,
                          ended.why == core::Cause::none ? "" : core::cause_name(ended.why));
          },
          [&](const core::WakeAt& wake) {
            wakes_.insert(wake.time.ms());
            return std::string();
          },
          [&](const core::Notice& notice) { return take_notice(notice); },
      },
      action);
  if (!text.empty()) ++answers_.actions;
  return text;
}

std::string Session::take_eviction(const core::Evicted& evicted) {
  Eviction eviction{.uid = std::string(engine_->uid(evicted.workload)),
                    .rule = evicted.rule,
                    .beneficiary = "",
                    .moves_to = "",
                    .text = evicted.text};
  if (!evicted.beneficiary.is_none()) eviction.beneficiary = engine_->uid(evicted.beneficiary);
  if (!evicted.moves_to.is_none()) {
    eviction.moves_to = engine_->fleet().node(evicted.moves_to).name;
  }
  leaving_.emplace(
      now_ + grace_,
      Leaving{.uid = eviction.uid, .grant = evicted.grant, .restarts = restarts(eviction.uid)});
  answers_.evictions.push_back(std::move(eviction));
  return decide(evicted.moves_to.is_none() ? "evicted" : "moved", evicted.workload, evicted.text);
}

std::string Session::decide(const char* what, core::WorkloadId workload, std::string_view rest) {
  const std::string uid(engine_->uid(workload));
  answers_.decisions.push_back(fmt::format("{} {}", what, uid));
  return fmt::format("{} {}{}{}", uid, what, rest.empty() ? "" : " ", rest);
}

std::string Session::grant_text(core::WorkloadId workload) const {
  const core::Grant* grant = engine_->grant(workload);
  if (grant == nullptr) return "";
  std::string text = "on";
  for (const core::ContainerGrant& container : grant->containers) {
    for (const core::DeviceShare& share : container.shares) {
      text += fmt::format(" {}: {}", world_.short_name(engine_->fleet().uuid(share.device)),
                          memory_text(Memory::mib(share.request_mib)));
    }
  }
  return text == "on" ? fmt::format("on {}", engine_->fleet().node(grant->node).name) : text;
}

std::string Session::take_notice(const core::Notice& notice) {
  std::string subject;
  if (!notice.workload.is_none()) {
    subject = engine_->uid(notice.workload);
  } else if (!notice.device.is_none()) {
    subject = world_.short_name(engine_->fleet().uuid(notice.device));
  }
  std::string text =
      fmt::format("{}{}{}", notice_name(notice.kind), subject.empty() ? "" : " ", subject);
  answers_.notices.push_back(text);
  if (notice.kind == core::Notice::Kind::refused_event) answers_.refusals.push_back(notice.text);
  return fmt::format("notice: {}{}{}{}", text,
                     notice.bytes == 0 ? "" : " by " + memory_text(Memory::bytes(notice.bytes)),
                     notice.text.empty() ? "" : ": ", notice.text);
}

}  // namespace berth::scenario
