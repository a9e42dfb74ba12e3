#include "cli/usual_places.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace berth::cli {

namespace {

constexpr const char* kMachineState = "/var/lib/berth";

std::string own_state() {
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr && *home != '\0' ? home : "/tmp") + "/.local/state";
}

}  // namespace

std::string own_socket() {
  if (geteuid() == 0) {
    return std::string(kMachineSocket);
  }
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return (runtime != nullptr && *runtime != '\0' ? std::string(runtime) : own_state()) +
         "/berth/berth.sock";
}

std::vector<std::string> usual_addresses() {
  std::vector<std::string> addresses{"unix:" + std::string(kMachineSocket)};
  if (const std::string own = "unix:" + own_socket(); own != addresses.front()) {
    addresses.push_back(own);
  }
  return addresses;
}

bool machine_has_daemon() {
  std::error_code error;
  for (const char* unit :
       {"/etc/systemd/system/berth.service", "/usr/lib/systemd/system/berth.service"}) {
    if (std::filesystem::exists(unit, error)) {
      return true;
    }
  }
  return geteuid() != 0 && std::filesystem::exists(kMachineState, error);
}

std::string default_state_directory() {
  return geteuid() == 0 ? kMachineState : own_state() + "/berth";
}

std::string default_guard_library() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* place : {"../lib/libberth_guard.so", "../lib/berth/libberth_guard.so"}) {
    const std::filesystem::path path = program.parent_path() / place;
    if (std::filesystem::exists(path, error)) {
      return std::filesystem::weakly_canonical(path, error).string();
    }
  }
  return {};
}

}  // namespace berth::cli
