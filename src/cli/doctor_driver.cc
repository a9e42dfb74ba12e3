// Driver, device files and guard library.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/doctor_checks.h"
#include "gpu/nvml_library.h"

namespace berth::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kPatienceMs = 10'000;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// What `work` wrote to the descriptor it was given, run in a child process; nothing if it was not
// done within the patience. The status is the child's.
struct ChildAnswer {
  std::string text;
  int status = 0;
};

std::optional<ChildAnswer> in_a_child(const std::function<int(int)>& work) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ChildAnswer{std::strerror(errno), 1};
  }
  const pid_t child = fork();
  if (child == 0) {
    _exit(work(ends[1]));
  }
  close(ends[1]);
  ChildAnswer answer;
  bool late = child < 0;
  std::array<char, 512> buffer{};
  while (!late) {
    pollfd waits{.fd = ends[0], .events = POLLIN, .revents = 0};
    late = poll(&waits, 1, kPatienceMs) == 0;
    const ssize_t count = late ? 0 : read(ends[0], buffer.data(), buffer.size());
    if (count <= 0) {
      break;
    }
    answer.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  if (late && child > 0) {
    kill(child, SIGKILL);
    // A child that hangs in the kernel cannot be collected; it is not waited for.
    waitpid(child, nullptr, WNOHANG);
    return std::nullopt;
  }
  waitpid(child, &answer.status, 0);
  return answer;
}

void say(int to, std::string_view text) { static_cast<void>(!write(to, text.data(), text.size())); }

// Exit status: 0 and a sentence; 1 not there; 2 it refuses.
int ask_driver(const std::string& library, int to) {
  const Result<std::unique_ptr<gpu::NvmlLibrary>> nvml = gpu::NvmlLibrary::open(library);
  if (!nvml) {
    say(to, nvml.error().message());
    return dlopen(library.c_str(), RTLD_LAZY) == nullptr ? 1 : 2;
  }
  unsigned devices = 0;
  if (const int code = (*nvml)->count(devices); code != gpu::nvml::kSuccess) {
    say(to, (*nvml)->text(code));
    return 2;
  }
  const int cuda = (*nvml)->cuda_version();
  say(to, fmt::format("driver {}, NVML {}, CUDA {}.{}, {} GPU{}", (*nvml)->driver_version(),
                      (*nvml)->nvml_version(), cuda / 1000, cuda % 1000 / 10, devices,
                      devices == 1 ? "" : "s"));
  return 0;
}

}  // namespace

int pci_gpu_count(const std::string& bus) {
  int count = 0;
  std::error_code error;
  for (const fs::directory_entry& device : fs::directory_iterator(bus, error)) {
    // Class 0x03: display controllers, 3D ones among them.
    count += first_line(device.path() / "vendor") == "0x10de" &&
                     first_line(device.path() / "class").starts_with("0x03")
                 ? 1
                 : 0;
  }
  return count;
}

Finding check_driver(const std::string& library, int pci_gpus) {
  Finding finding{.name = "driver"};
  const std::optional<ChildAnswer> answer =
      in_a_child([&](int to) { return ask_driver(library, to); });
  if (!answer.has_value()) {
    finding.health = Health::fail;
    finding.text =
        fmt::format("the driver has not answered for {} s: it hangs", kPatienceMs / 1000);
    finding.mend = "look for \"NVRM: Xid\" in `dmesg`; a GPU that hangs needs a reset or a reboot";
    return finding;
  }
  const int status = WIFEXITED(answer->status) ? WEXITSTATUS(answer->status) : -1;
  if (status == 0) {
    finding.text = answer->text;
    return finding;
  }
  if (status == 1 && pci_gpus == 0) {
    finding.health = Health::warn;
    finding.text = "no driver, and no NVIDIA GPU on the PCI bus";
    finding.mend =
        "nothing, if this machine has none: `berth serve --simulate 2x16GiB` works without";
    return finding;
  }
  finding.health = Health::fail;
  if (status == 1) {
    finding.text = fmt::format("{} on the PCI bus, but no driver: {}",
                               pci_gpus == 1 ? "a GPU is" : fmt::format("{} GPUs are", pci_gpus),
                               answer->text);
    finding.mend =
        "install NVIDIA's driver (Debian: the package nvidia-driver), or in a container pass its "
        "libraries in (NVIDIA container toolkit)";
  } else if (status == 2) {
    finding.text = "the driver refuses: " + answer->text;
    finding.mend =
        "`nvidia-smi` should say the same; after an update of the driver its kernel module is the "
        "old one until a reboot";
  } else {
    finding.text = fmt::format("{} ends the program that loads it (signal {})", library,
                               WIFSIGNALED(answer->status) ? WTERMSIG(answer->status) : 0);
    finding.mend = "install the driver anew; library and kernel module must be of one version";
  }
  return finding;
}

Finding check_device_files(int pci_gpus, const std::string& folder) {
  Finding finding{.name = "devices"};
  std::vector<std::string> found;
  std::vector<std::string> closed;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const bool numbered = name.starts_with("nvidia") && name.size() > 6 &&
                          name.find_first_not_of("0123456789", 6) == std::string::npos;
    if (!numbered && name != "nvidiactl" && name != "nvidia-uvm") {
      continue;
    }
    found.push_back(name);
    if (access(entry.path().c_str(), R_OK | W_OK) != 0) {
      closed.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  std::ranges::sort(closed);
  if (found.empty()) {
    finding.health = pci_gpus > 0 ? Health::fail : Health::warn;
    finding.text = fmt::format("no {}/nvidia*", folder);
    finding.mend = pci_gpus > 0
                       ? "load the driver's kernel module: `modprobe nvidia`, then `nvidia-smi`"
                       : "nothing, if this machine has no GPU";
    return finding;
  }
  if (!closed.empty()) {
    finding.health = Health::fail;
    finding.text = fmt::format("{} may not be opened by this user", fmt::join(closed, ", "));
    finding.mend =
        "mode 0666 is usual; otherwise add the user to the group of these files (`ls -l "
        "/dev/nvidia*`), and log in again";
    return finding;
  }
  finding.text = fmt::format("{} can be opened", fmt::join(found, ", "));
  if (std::ranges::find(found, "nvidia-uvm") == found.end()) {
    finding.health = Health::warn;
    finding.text += "; no nvidia-uvm";
    finding.mend = "CUDA makes it when it first runs as root: `nvidia-modprobe -u -c 0`";
  }
  return finding;
}

Finding check_guard(const std::string& library) {
  Finding finding{.name = "guard"};
  if (library.empty()) {
    finding.health = Health::warn;
    finding.text =
        "no guard library: limits are advisory, a program can take more than it asked for";
    finding.mend = "build or install libberth_guard.so beside berth, or name it with --guard";
    return finding;
  }
  if (access(library.c_str(), R_OK) != 0) {
    finding.health = Health::fail;
    finding.text = fmt::format("{}: {}", library, std::strerror(errno));
    finding.mend = "give every user the right to read the library and its folders";
    return finding;
  }
  // As a user's program gets it. The loader only complains on stderr when it cannot.
  const std::optional<ChildAnswer> answer = in_a_child([&](int to) {
    dup2(to, STDERR_FILENO);
    dup2(to, STDOUT_FILENO);
    setenv("LD_PRELOAD", library.c_str(), 1);
    execl("/bin/true", "true", nullptr);
    return 127;
  });
  if (!answer.has_value() || answer->status != 0 || !answer->text.empty()) {
    finding.health = Health::fail;
    std::string why = answer.has_value() ? answer->text : "the program did not end";
    why.erase(why.find_last_not_of(" \n") + 1);
    finding.text = fmt::format("{} cannot be loaded into a program: {}", library,
                               why.empty() ? "it ended badly" : why);
    finding.mend = "install the guard that was built for this machine and this berth";
    return finding;
  }
  finding.text = library;
  return finding;
}

}  // namespace berth::cli
