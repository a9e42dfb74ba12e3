// Where things are when nobody says otherwise: the same for the daemon and for those who look for
// it. Thread-safety: functions of the environment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::cli {

// The machine's daemon, run by root.
inline constexpr std::string_view kMachineSocket = "/run/berth/berth.sock";

// The user's own: $XDG_RUNTIME_DIR/berth/berth.sock, else below ~/.local/state; root's is the
// machine's. A path.
std::string own_socket();

// Where a daemon is looked for, in this order: the machine's, so that all users share one set of
// books, then the user's own. Each with "unix:".
std::vector<std::string> usual_addresses();

// The unit or the books of a daemon of the machine are there, whether it runs or not.
bool machine_has_daemon();

// /var/lib/berth for root, else ~/.local/state/berth.
std::string default_state_directory();

// Beside this program, as built or as installed; empty: it is not there.
std::string default_guard_library();

}  // namespace berth::cli
