// The words of `docker run` and `podman run`, changed so that the container gets what its lease
// grants and nothing else.
//
//   TRY(ContainerCommand command, rewrite_container(words, grant));
//   "docker run --gpus all -it img"  ->  "docker run --gpus device=GPU-… -e … -v … -i -t img"
//
// What asks for GPUs is left out, and said so; what would give the container devices in ways that
// cannot be narrowed (--privileged, /dev/nvidia0, a device cgroup rule), or take it away from under
// its lease (--detach, no cgroup, another machine's engine), is refused with the way out.
// Thread-safety: functions of their arguments.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace berth::cli {

struct ContainerGrant {
  std::vector<std::string> uuids;
  std::vector<std::pair<std::string, std::string>> environment;  // of the lease, for a container
  std::string grant_directory = {};  // of the guard on this machine; empty: without guard
  std::string guard_library = {};
  bool device_names = false;  // podman: this machine has CDI names nvidia.com/gpu=UUID
  std::string id_file = {};   // where the engine shall write the container's id
};

struct ContainerCommand {
  std::vector<std::string> words;
  std::vector<std::string> notes;  // what was left out, for the user
  std::string engine;              // "docker" or "podman", as it was written, with its path
  std::string id_file;             // the user's own --cidfile, or the grant's
  bool own_user_names = false;     // --userns: root in the container is another user outside
};

// Errors: invalid_argument: what is refused, why, and what to write instead.
Result<ContainerCommand> rewrite_container(const std::vector<std::string>& words,
                                           const ContainerGrant& grant);

// "docker" or "podman" if the command starts a container: its GPU is the engine's business then,
// and without --container the lease does not reach it. Else empty.
std::string_view started_engine(const std::vector<std::string>& words);

}  // namespace berth::cli
