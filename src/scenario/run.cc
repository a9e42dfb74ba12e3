#include "scenario/run.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "request/admission.h"
#include "scenario/checker.h"
#include "scenario/session.h"
#include "scenario/words.h"

namespace berth::scenario {

namespace {

constexpr int kSettleRounds = 5;

// Does the deeds of one script.
class Runner {
 public:
  Runner(const Script& script, Session session) : script_(script), session_(std::move(session)) {}

  Result<CaseReport> run() {
    for (const core::Node& node : script_.fleet) {
      session_.apply(core::NodeUpserted{session_.world().describe(node)});
    }
    // After the nodes: their models are the classes that quotas speak of.
    if (!script_.topologies.empty()) {
      session_.apply(core::TopologiesChanged{script_.topologies});
    }
    if (script_.queues) {
      queues_ = *script_.queues;
      session_.apply(core::QueuesChanged{queues_});
    }
    refused(script_.place);
    stop_if_broken(script_.place);
    for (const Step& step : script_.steps) {
      if (stopped_) break;
      TRY_VOID(run_step(step));
    }
    report_.about = script_.about;
    report_.place = script_.place;
    report_.transcript = std::move(session_.transcript());
    return std::move(report_);
  }

 private:
  Error error(Place place, std::string_view message) const {
    return yaml::error_at(script_.file, place.line, place.column, message);
  }

  Result<void> run_step(const Step& step) {
    const Time to = step.at        ? *step.at
                    : step.advance ? session_.now() + *step.advance
                                   : session_.now();
    if (to < session_.now()) {
      return error(step.place, fmt::format("at {}: time has reached {} already: put steps in order",
                                           time_text(to), time_text(session_.now())));
    }
    session_.begin_step();
    refusals_expected_ = false;
    session_.advance(to);
    for (const Deed& deed : step.deeds) {
      if (stopped_) return success();
      TRY_VOID(std::visit([this](const auto& one) { return perform(one); }, deed));
      stop_if_broken(step.place);
    }
    session_.verify_now();
    stop_if_broken(step.place);
    if (!refusals_expected_) refused(step.place);
    return success();
  }

  void refused(Place place) {
    if (session_.answers().refusals.empty()) return;
    unmet(place, "the step", "events that the engine obeys",
          fmt::format("refused: {}", fmt::join(session_.answers().refusals, "; ")));
  }

  void unmet(Place place, std::string subject, std::string wanted, std::string found) {
    report_.checks.push_back({.place = place,
                              .met = false,
                              .subject = std::move(subject),
                              .wanted = std::move(wanted),
                              .found = std::move(found),
                              .detail = ""});
  }

  void stop_if_broken(Place place) {
    if (!session_.broken() || stopped_) return;
    stopped_ = true;
    unmet(place, "the engine", "books that verify", *session_.broken());
  }

  Result<std::string> uuid_of(const Named& device) const {
    auto uuid = session_.world().uuid_of(device.text);
    if (!uuid) {
      return error(
          device.place,
          fmt::format("'{}' is no device of the fleet: write NODE/gN or a UUID", device.text));
    }
    return *std::move(uuid);
  }

  Result<core::Node*> node_of(const Named& name) {
    core::Node* node = session_.world().find_node(name.text);
    if (node == nullptr) {
      return error(name.place, fmt::format("'{}' is no node of the fleet", name.text));
    }
    return node;
  }

  Result<void> perform(const Submit& submit) {
    if (submit.refusal) {
      const Named& code = *submit.refusal;
      const bool met = submit.refused_as.find(code.text) != std::string::npos;
      report_.checks.push_back(
          {.place = code.place,
           .met = met,
           .subject = submit.uids.front().text,
           .wanted = "a request refused with " + code.text,
           .found = submit.refused_as.empty() ? "a request accepted" : submit.refused_as,
           .detail = ""});
      return success();
    }
    for (const Named& uid : submit.uids) {
      session_.note(fmt::format("submit {}", uid.text));
      if (!submit.gang) {
        session_.apply(core::WorkloadSubmitted{
            core::Workload::task(uid.text, submit.request, submit.options)});
        continue;
      }
      auto gang = core::Workload::gang(uid.text, *submit.gang, submit.options);
      if (!gang.ok()) return error(submit.place, gang.error().message());
      session_.apply(core::WorkloadSubmitted{*std::move(gang)});
    }
    return success();
  }

  // Nothing is decided before the last of them is there.
  Result<void> perform(const SubmitTogether& together) {
    core::QueueConfig held = queues_;
    for (const Submit& submit : together.submits) {
      for (core::QueueSpec& queue : held.queues) {
        if (queue.name == submit.options.queue) queue.stop = core::QueueStop::hold;
      }
    }
    session_.apply(core::QueuesChanged{std::move(held)});
    for (const Submit& submit : together.submits) {
      TRY_VOID(perform(submit));
    }
    session_.note("all of them are there");
    session_.apply(core::QueuesChanged{queues_});
    return success();
  }

  Result<void> perform(const Join& join) {
    session_.note(fmt::format("join {}: {}", join.uid, join.members.name));
    session_.apply(core::MembersJoined{join.uid, join.group, join.members});
    return success();
  }

  Result<void> perform(const ChangeQueues& change) {
    queues_.queues = change.queues;
    session_.note("queues change");
    session_.apply(core::QueuesChanged{queues_});
    return success();
  }

  Result<void> perform(const StopQueues& deed) {
    for (const Named& name : deed.queues) {
      const auto queue = std::ranges::find(queues_.queues, name.text, &core::QueueSpec::name);
      if (queue == queues_.queues.end()) {
        return error(name.place, fmt::format("'{}' is no queue here", name.text));
      }
      queue->stop = deed.stop;
      session_.note(fmt::format("{} queue {}", stop_name(deed.stop), name.text));
    }
    session_.apply(core::QueuesChanged{queues_});
    return success();
  }

  Result<void> perform(const ChangeTopologies& change) {
    session_.note("topologies change");
    session_.apply(core::TopologiesChanged{change.topologies});
    return success();
  }

  Result<void> perform(const HoldGranting& deed) {
    session_.note(deed.held ? "granting is held" : "granting goes on");
    session_.apply(core::GrantingHeld{deed.held});
    return success();
  }

  Result<void> perform(const Adopt& adopt) {
    core::GrantAdopted adopted{
        .workload = core::Workload::task(adopt.uid, adopt.request, adopt.options),
        .node = "",
        .shares = {},
        .confirmed = adopt.confirmed};
    for (const Named& device : adopt.devices) {
      TRY(std::string uuid, uuid_of(device));
      const std::string node = session_.world().node_of(uuid).value_or("");
      const core::Node* described = session_.world().find_node(node);
      const core::DeviceId id = session_.engine().fleet().find_device(uuid);
      if (described == nullptr || id.is_none() || !session_.engine().fleet().present(id)) {
        return error(device.place, fmt::format("'{}' is not there now", device.text));
      }
      const std::int64_t usable = session_.engine().fleet().device(id).usable_mib();
      for (std::uint32_t c = 0; c < adopt.request.containers().size(); ++c) {
        const core::DeviceAsk& ask = adopt.request.containers()[c].gpu;
        adopted.shares.push_back(
            {.container = c,
             .uuid = uuid,
             .request_mib = core::request_mib_on(ask, usable, described->gpu_replicas),
             .limit_mib = core::limit_mib_on(ask, usable, described->gpu_replicas)});
      }
      adopted.node = node;
    }
    session_.note(fmt::format("adopt {}", adopt.uid));
    session_.apply(std::move(adopted));
    return success();
  }

  // What admission says of it; the engine itself reads a request once and never again.
  Result<void> perform(const Edit& edit) {
    std::string found;
    for (const request::Finding& finding :
         request::check_update({}, edit.annotations, request::Writer::user)) {
      found += (found.empty() ? "" : "; ") + finding.text();
    }
    const std::string wanted = edit.refusal ? edit.refusal->text : "";
    report_.checks.push_back(
        {.place = edit.refusal ? edit.refusal->place : edit.place,
         .met = wanted.empty() ? found.empty() : found.find(wanted) != std::string::npos,
         .subject = edit.uid,
         .wanted = wanted.empty() ? "a change accepted" : "a change refused with " + wanted,
         .found = found.empty() ? "a change accepted" : found,
         .detail = ""});
    return success();
  }

  Result<void> perform(const Restart& restart) {
    session_.note("restart");
    if (auto anew = session_.start_anew(); !anew.ok()) {
      return error(restart.place, anew.error().message());
    }
    if (!script_.topologies.empty()) session_.apply(core::TopologiesChanged{script_.topologies});
    if (script_.queues) session_.apply(core::QueuesChanged{queues_});
    session_.tell_again();
    return success();
  }

  Result<void> perform(const WorkloadDeed& deed) {
    for (const Named& uid : deed.uids) {
      session_.note(fmt::format("{} {}", verb_name(deed.verb), uid.text));
      switch (deed.verb) {
        case WorkloadVerb::cancel: session_.apply(core::WorkloadCancelled{uid.text}); break;
        case WorkloadVerb::confirm: session_.apply(core::GrantConfirmed{uid.text}); break;
        case WorkloadVerb::releasing: session_.apply(core::GrantReleasing{uid.text}); break;
        case WorkloadVerb::end: session_.apply(core::GrantReleased{uid.text}); break;
        case WorkloadVerb::lost:
          session_.apply(core::GrantLost{.uid = uid.text, .why = "scenario", .requeue = false});
          break;
        case WorkloadVerb::requeue:
          session_.apply(core::GrantLost{.uid = uid.text, .why = "scenario", .requeue = true});
          break;
        case WorkloadVerb::initialized: session_.apply(core::WorkloadInitialized{uid.text}); break;
      }
    }
    return success();
  }

  Result<void> perform(const Observe& observe) {
    core::DeviceObserved sample{.uuid = "",
                                .sampled_at = session_.now() - observe.age,
                                .used = observe.used,
                                .attributed = observe.uses.has_value(),
                                .uses = {},
                                .health = observe.health};
    TRY(sample.uuid, uuid_of(observe.device));
    if (observe.uses) {
      for (const auto& [uid, used] : *observe.uses)
        sample.uses.push_back({uid.text, used});
    }
    session_.note(fmt::format("observe {}: {} used", observe.device.text,
                              observe.used ? memory_text(*observe.used) : "unknown"));
    session_.apply(std::move(sample));
    return success();
  }

  Result<void> perform(const NodeDeed& deed) {
    for (const Named& name : deed.nodes) {
      TRY(core::Node * node, node_of(name));
      session_.note(fmt::format("{} {}", verb_name(deed.verb), name.text));
      switch (deed.verb) {
        case NodeVerb::down: node->ready = false; break;
        case NodeVerb::up: node->ready = true; break;
        case NodeVerb::cordon: node->cordoned = true; break;
        case NodeVerb::uncordon: node->cordoned = false; break;
        case NodeVerb::remove: session_.apply(core::NodeRemoved{name.text}); continue;
      }
      session_.apply(core::NodeUpserted{*node});
    }
    return success();
  }

  Result<void> perform(const AddNode& add) {
    session_.note(fmt::format("add node {}", add.node.name));
    session_.apply(core::NodeUpserted{session_.world().describe(add.node)});
    return success();
  }

  Result<void> perform(const DeviceDeed& deed) {
    for (const Named& device : deed.devices) {
      TRY(const std::string uuid, uuid_of(device));
      session_.note(fmt::format("{} {}", verb_name(deed.verb), device.text));
      bool done = true;
      switch (deed.verb) {
        case DeviceVerb::cordon: session_.apply(core::DeviceCordoned{uuid, true}); continue;
        case DeviceVerb::uncordon: session_.apply(core::DeviceCordoned{uuid, false}); continue;
        case DeviceVerb::remove: done = session_.world().remove_device(uuid); break;
        case DeviceVerb::restore: done = session_.world().restore_device(uuid); break;
      }
      if (!done)
        return error(device.place, fmt::format("'{}' is away or there already", device.text));
      const std::string node = session_.world().node_of(uuid).value_or("");
      session_.apply(core::NodeUpserted{*session_.world().find_node(node)});
    }
    return success();
  }

  Result<void> perform(const AddDevice& add) {
    for (const core::Device& device : add.devices) {
      if (!session_.world().add_device(add.node, device)) {
        return error(add.place, fmt::format("node '{}' is not there, or '{}' was seen before",
                                            add.node, device.uuid));
      }
      session_.note(fmt::format("add device {}", session_.world().short_name(device.uuid)));
    }
    session_.apply(core::NodeUpserted{*session_.world().find_node(add.node)});
    return success();
  }

  Result<void> perform(const Renumber& renumber) {
    if (const auto done = session_.world().renumber(renumber.node, renumber.indices); !done.ok()) {
      return error(renumber.place, done.error().message());
    }
    session_.note(fmt::format("renumber {}", renumber.node));
    session_.apply(core::NodeUpserted{*session_.world().find_node(renumber.node)});
    return success();
  }

  Result<void> perform(const ChangePolicy& change) {
    session_.note(fmt::format("policy {}", change.spec));
    session_.apply(core::PolicyChanged{.spec = change.spec, .seed = script_.config.policy_seed});
    return success();
  }

  Result<void> perform(const Expect& expect) {
    if (expect.notices) refusals_expected_ = true;
    session_.verify_now();
    TRY(std::vector<Check> checks, check_expectations(expect, session_, script_.file));
    for (Check& check : checks)
      report_.checks.push_back(std::move(check));
    const std::vector<std::string> unrest = session_.settle(kSettleRounds);
    if (!unrest.empty()) {
      unmet(expect.place, "the engine", "nothing more to decide in five further rounds",
            fmt::format("{}", fmt::join(unrest, "; ")));
    }
    return success();
  }

  const Script& script_;
  Session session_;
  CaseReport report_;
  core::QueueConfig queues_ = core::default_queues();  // as they are configured now
  bool refusals_expected_ = false;
  bool stopped_ = false;
};

}  // namespace

Result<CaseReport> run_script(const Script& script, Verdicts verdicts) {
  auto session = Session::create(script.config, script.eviction_grace);
  if (!session.ok()) {
    return yaml::error_at(script.file, script.place.line, script.place.column,
                          session.error().message());
  }
  session->keep_verdicts(verdicts == Verdicts::json);
  return Runner(script, *std::move(session)).run();
}

Result<ScenarioReport> run_scenario(std::string_view text, std::string_view file_name,
                                    Verdicts verdicts) {
  TRY(const std::vector<Script> scripts, parse_scripts(text, file_name));
  ScenarioReport report{.file = std::string(file_name), .cases = {}};
  for (const Script& script : scripts) {
    TRY(CaseReport one, run_script(script, verdicts));
    report.cases.push_back(std::move(one));
  }
  return report;
}

}  // namespace berth::scenario
