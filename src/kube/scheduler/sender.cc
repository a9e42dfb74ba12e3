#include "kube/scheduler/sender.h"

#include <utility>
#include <variant>

#include <fmt/format.h>

#include "json/value.h"
#include "kube/objects/bodies.h"
#include "kube/objects/read.h"

namespace berth::kube {

namespace {

// The window of the queue of writes, and a few that are ready when one comes back.
constexpr std::size_t kBindings = 72;
constexpr std::size_t kConditions = 64;
constexpr std::size_t kEvents = 16;
constexpr Duration kTimeout{30'000};
constexpr std::string_view kSelectedNode = "volume.kubernetes.io/selected-node";

ObjectRef ref_to(const PodName& pod) {
  return {.namespace_name = pod.namespace_name, .name = pod.name, .uid = pod.uid};
}

Said said_by(const Answer& answer) {
  Said said;
  switch (answer.outcome) {
    case Outcome::answered: said.outcome = Said::Outcome::answered; break;
    case Outcome::not_sent: said.outcome = Said::Outcome::not_sent; break;
    case Outcome::unknown: said.outcome = Said::Outcome::unknown; break;
  }
  said.status = answer.status;
  said.retry_after = answer.retry_after;
  if (answer.outcome != Outcome::answered) {
    said.message = std::string(answer.problem);
  } else if (!answer.ok()) {
    const Status status = read_status(answer);
    said.message = status.message.empty() ? describe(answer) : status.message;
    if (!said.retry_after.has_value()) {
      said.retry_after = status.retry_after;
    }
  }
  return said;
}

std::size_t left(std::size_t most, std::size_t used) { return used < most ? most - used : 0; }

}  // namespace

Sender::Sender(Client& client, std::function<bool()> may_write, std::string instance, bool dry,
               Told told)
    : client_(client),
      may_write_(may_write),
      writes_(client, client.timers(), std::move(may_write)),
      instance_(std::move(instance)),
      dry_(dry),
      told_(std::move(told)) {}

Harbour::Room Sender::room() const {
  return {.bindings = left(kBindings, bindings_),
          .conditions = left(kConditions, conditions_),
          .events = left(kEvents, events_)};
}

void Sender::send(Deed deed) {
  std::visit([&](auto&& body) { send(deed.number, std::forward<decltype(body)>(body)); },
             std::move(deed.body));
}

Answered Sender::counted(std::uint64_t number, std::size_t& count) {
  ++count;
  return [this, number, &count](const Answer& answer) {
    --count;
    told_(number, said_by(answer));
  };
}

void Sender::send(std::uint64_t number, Bind bind) {
  if (dry_) {
    client_.post([this, number] { told_(number, {.status = 201}); });
    return;
  }
  Call call{.method = Method::post,
            .path = binding_path(bind.pod.namespace_name, bind.pod.name),
            .body = binding_body(ref_to(bind.pod), bind.node, bind.annotations),
            .lane = Lane::write,
            .retry = Retry::never,
            .timeout = kTimeout};
  writes_.submit({.rank = WriteRank::binding,
                  .object = bind.pod.uid,
                  .call = std::move(call),
                  .done = counted(number, bindings_)});
}

void Sender::send(std::uint64_t number, ReadPod read) {
  Call call{.path = pod_path(read.pod.namespace_name, read.pod.name),
            .lane = Lane::read,
            .retry = Retry::never,
            .timeout = kTimeout};
  client_.call(std::move(call), [this, number](const Answer& answer) {
    Said said = said_by(answer);
    if (answer.ok()) {
      const auto root = parser_.parse(answer.body);
      Result<Pod> pod = root.ok() ? read_pod(*root) : Result<Pod>(root.error());
      if (pod.ok()) {
        said.pod = *std::move(pod);
      } else {
        said.message = pod.error().message();
      }
    }
    told_(number, std::move(said));
  });
}

void Sender::send(std::uint64_t number, PatchStatus patch) {
  if (dry_) {
    client_.post([this, number] { told_(number, {.status = 200}); });
    return;
  }
  Call call{.method = Method::patch,
            .path = pod_status_path(patch.pod.namespace_name, patch.pod.name),
            .body = condition_body(patch.pod.uid, {.reason = patch.reason,
                                                   .message = patch.message,
                                                   .transition_ms = patch.transition_ms,
                                                   .observed_generation = patch.generation}),
            .content = Content::strategic_merge_patch,
            .lane = Lane::write,
            .retry = Retry::idempotent,
            .timeout = kTimeout};
  writes_.submit({.rank = WriteRank::condition,
                  .object = patch.pod.uid,
                  .call = std::move(call),
                  .done = counted(number, conditions_)});
}

void Sender::send(std::uint64_t number, Say say) {
  if (dry_) {
    client_.post([this, number] { told_(number, {.status = 201}); });
    return;
  }
  const ObjectRef pod = ref_to(say.pod);
  const std::string name = event_name(pod, say.first_us);
  Call call{.lane = Lane::write, .retry = Retry::never, .timeout = kTimeout};
  if (say.count <= 1) {
    call.method = Method::post;
    call.path = events_path(say.pod.namespace_name);
    call.body = event_body({.regarding = pod,
                            .type = say.warning ? "Warning" : "Normal",
                            .reason = say.reason,
                            .action = say.action,
                            .note = say.note,
                            .instance = instance_,
                            .time_us = say.first_us},
                           name);
  } else {
    call.method = Method::patch;
    call.path = event_path(say.pod.namespace_name, name);
    call.content = Content::merge_patch;
    call.body = event_series_body(say.count, say.last_us);
    call.retry = Retry::idempotent;
  }
  writes_.submit({.rank = WriteRank::event,
                  .object = say.pod.uid,
                  .call = std::move(call),
                  .done = counted(number, events_)});
}

// A patch of what is there, with the uid, and of a volume the version, as preconditions.
void Sender::send(std::uint64_t number, PatchClaim patch) {
  if (dry_ || !may_write_()) {
    client_.post([this, number] { told_(number, {.outcome = Said::Outcome::not_sent}); });
    return;
  }
  Call call{.method = Method::patch,
            .content = Content::merge_patch,
            .lane = Lane::write,
            .retry = Retry::idempotent,
            .timeout = kTimeout,
            .may_start = may_write_};
  if (patch.volume.empty()) {
    call.path = fmt::format("/api/v1/namespaces/{}/persistentvolumeclaims/{}", patch.namespace_name,
                            patch.claim);
    json::Value node = patch.node.empty() ? json::Value() : json::Value(patch.node);
    call.body = json::dump(json::object(
        {{"metadata", json::object({{"uid", patch.claim_uid},
                                    {"annotations", json::object({{std::string(kSelectedNode),
                                                                   std::move(node)}})}})}}));
  } else {
    call.path = fmt::format("/api/v1/persistentvolumes/{}", patch.volume);
    call.body = json::dump(json::object(
        {{"metadata", json::object({{"resourceVersion", patch.volume_version}})},
         {"spec", json::object({{"claimRef", json::object({{"apiVersion", "v1"},
                                                           {"kind", "PersistentVolumeClaim"},
                                                           {"namespace", patch.namespace_name},
                                                           {"name", patch.claim},
                                                           {"uid", patch.claim_uid}})}})}}));
  }
  client_.call(std::move(call),
               [this, number](const Answer& answer) { told_(number, said_by(answer)); });
}

}  // namespace berth::kube
