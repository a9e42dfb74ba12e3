// Containers among the processes of this machine.
// Thread-safety: functions of their arguments.
#pragma once

#include <string>
#include <string_view>

#include "local/processes.h"

namespace berth::local {

// The cgroup of the container with this id (64 hexadecimal digits, as engines write into
// --cidfile), as /proc shows it; whichever engine made it: "/docker/ID",
// "/system.slice/docker-ID.scope", "/user.slice/…/libpod-ID.scope". Empty: it has no process yet.
std::string container_cgroup(const Processes& processes, std::string_view id);

}  // namespace berth::local
