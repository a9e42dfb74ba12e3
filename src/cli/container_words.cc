#include "cli/container_words.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"

namespace berth::cli {

namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kGrantInside = "/run/berth/grant";
constexpr std::string_view kGuardInside = "/run/berth/libberth_guard.so";

// Options of `run` without a value, of docker 27 and podman 5; every other one takes one.
constexpr auto kSwitches = std::to_array<std::string_view>({"detach",
                                                            "disable-content-trust",
                                                            "env-host",
                                                            "help",
                                                            "http-proxy",
                                                            "init",
                                                            "interactive",
                                                            "no-healthcheck",
                                                            "no-hostname",
                                                            "no-hosts",
                                                            "passwd",
                                                            "privileged",
                                                            "publish-all",
                                                            "quiet",
                                                            "read-only",
                                                            "replace",
                                                            "read-only-tmpfs",
                                                            "rm",
                                                            "rmi",
                                                            "rootfs",
                                                            "sig-proxy",
                                                            "oom-kill-disable",
                                                            "tls-verify",
                                                            "tty",
                                                            "unsetenv-all",
                                                            "use-api-socket"});

struct Letter {
  char letter;
  std::string_view name;
};
constexpr auto kLetters = std::to_array<Letter>({{'a', "attach"},
                                                 {'c', "cpu-shares"},
                                                 {'d', "detach"},
                                                 {'e', "env"},
                                                 {'h', "hostname"},
                                                 {'i', "interactive"},
                                                 {'l', "label"},
                                                 {'m', "memory"},
                                                 {'p', "publish"},
                                                 {'P', "publish-all"},
                                                 {'q', "quiet"},
                                                 {'t', "tty"},
                                                 {'u', "user"},
                                                 {'v', "volume"},
                                                 {'w', "workdir"}});

// Global options, before `run`, that send the container to another machine.
constexpr auto kElsewhere = std::to_array<std::string_view>(
    {"-H", "--host", "-c", "--context", "--connection", "--remote", "-r", "--url"});

bool is_switch(std::string_view name) {
  return std::ranges::find(kSwitches, name) != kSwitches.end();
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

struct EngineOption {
  std::string name;                  // long, without dashes
  std::optional<std::string> value;  // absent: a switch
  Words words;                       // as to be written
};

// The parts of ENGINE [GLOBAL…] [container] run OPTIONS… IMAGE ARGUMENTS….
struct Parts {
  Words before;  // up to and with `run`
  std::vector<EngineOption> options;
  Words after;  // the image and what follows
};

Error refused(std::string_view what, std::string_view why, std::string_view instead) {
  return invalid_argument(fmt::format("{} {}; {}", printable(what), why, instead));
}

Result<std::size_t> find_run(const Words& words) {
  std::size_t at = 1;
  for (; at < words.size() && words[at].starts_with('-'); ++at) {
    const std::string name = words[at].substr(0, words[at].find('='));
    if (std::ranges::find(kElsewhere, name) != kElsewhere.end()) {
      return refused(words[at], "may start the container on another machine than the granted GPU's",
                     "leave it out");
    }
    const bool has_value = words[at].find('=') == std::string::npos &&
                           (name == "--config" || name == "--log-level" || name == "-l" ||
                            name == "--root" || name == "--runroot" || name == "--cgroup-manager" ||
                            name == "--storage-driver" || name == "--storage-opt" ||
                            name == "--runtime" || name == "--conmon" || name == "--tmpdir");
    if (has_value) ++at;
  }
  if (at < words.size() && words[at] == "container") ++at;
  if (at >= words.size() || words[at] != "run") {
    return invalid_argument(
        fmt::format("--container takes a command that runs a container: {} run … IMAGE …, not `{}`",
                    file_name(words.front()), printable(fmt::format("{}", fmt::join(words, " ")))));
  }
  return at;
}

Error without_value(std::string_view word) {
  return invalid_argument(fmt::format("{} needs a value", printable(word)));
}

// One word with several letters is as many options.
Result<void> take_letters(const Words& words, std::size_t& at, Parts& parts) {
  const std::string& word = words[at];
  for (std::size_t i = 1; i < word.size(); ++i) {
    const auto* known = std::ranges::find(kLetters, word[i], &Letter::letter);
    if (known == kLetters.end()) {
      return invalid_argument(fmt::format(
          "{} is an option that berth does not know; write its long form", printable(word)));
    }
    const std::string flag = {'-', word[i]};
    if (is_switch(known->name)) {
      parts.options.push_back({std::string(known->name), std::nullopt, {flag}});
      continue;
    }
    std::string value = word.substr(i + 1);
    if (value.starts_with('=')) value.erase(0, 1);
    if (value.empty()) {
      if (++at >= words.size()) return without_value(flag);
      value = words[at];
    }
    parts.options.push_back({std::string(known->name), value, {flag, value}});
    break;
  }
  return success();
}

Result<Parts> parts_of(const Words& words) {
  TRY(const std::size_t run, find_run(words));
  Parts parts;
  parts.before.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(run) + 1);
  std::size_t at = run + 1;
  for (; at < words.size() && words[at].size() > 1 && words[at].starts_with('-'); ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (!word.starts_with("--")) {
      TRY_VOID(take_letters(words, at, parts));
      continue;
    }
    const std::size_t equals = word.find('=');
    EngineOption option{.name = word.substr(2, equals == std::string::npos ? equals : equals - 2),
                        .value = std::nullopt,
                        .words = {word}};
    if (equals != std::string::npos) {
      option.value = word.substr(equals + 1);
    } else if (!is_switch(option.name)) {
      if (++at >= words.size()) return without_value(word);
      option.value = words[at];
      option.words.push_back(words[at]);
    }
    parts.options.push_back(std::move(option));
  }
  parts.after.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())),
                     words.end());
  return parts;
}

std::string shown(const EngineOption& option) {
  return fmt::format("{}", fmt::join(option.words, " "));
}

// A switch is on unless it says otherwise.
bool is_on(const EngineOption& option) {
  return !option.value || (*option.value != "false" && *option.value != "0");
}

bool is_gpu_path(std::string_view path) {
  return path.starts_with("/dev/nvidia") || path.starts_with("/dev/dri") || path == "/dev" ||
         path == "/dev/" || path == "/";
}

// Of --volume SOURCE:TARGET[:…] and of --mount type=bind,source=…,target=….
std::pair<std::string, std::string> source_and_target(const EngineOption& option) {
  const std::string& value = *option.value;
  if (option.name == "volume") {
    const std::size_t colon = value.find(':');
    if (colon == std::string::npos) return {"", value};
    return {value.substr(0, colon),
            value.substr(colon + 1, value.find(':', colon + 1) - colon - 1)};
  }
  std::pair<std::string, std::string> found;
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t comma = std::min(value.find(',', at), value.size());
    const std::string part = value.substr(at, comma - at);
    const std::string name = part.substr(0, part.find('='));
    const std::string text = part.substr(std::min(part.find('=') + 1, part.size()));
    if (name == "source" || name == "src") found.first = text;
    if (name == "target" || name == "dst" || name == "destination") found.second = text;
    at = comma + 1;
  }
  return found;
}

bool is_ours(std::string_view variable) {
  return variable == "NVIDIA_VISIBLE_DEVICES" || variable == "CUDA_VISIBLE_DEVICES" ||
         variable.starts_with("BERTH_");
}

class Rewriter {
 public:
  explicit Rewriter(const ContainerGrant& grant) : grant_(grant) {}

  // Decides about one option of the user's.
  Result<void> take(EngineOption option) {
    if (option.name == "gpus") return leave_out(option);
    if (option.name == "env") return take_env(std::move(option));
    if (option.name == "device") return take_device(std::move(option));
    if (option.name == "volume" || option.name == "mount") return take_mount(std::move(option));
    if (option.name == "privileged" && is_on(option)) {
      return refused("--privileged", "would give the container every GPU of the machine",
                     "leave it out, or add the single rights that it needs (--cap-add)");
    }
    if (option.name == "detach" && is_on(option)) {
      return refused("--detach", "would end the lease while the container runs",
                     "leave it out: berth run holds the lease as long as it waits for the "
                     "container; put `&` behind the whole command, or use `berth submit`");
    }
    if (option.name == "device-cgroup-rule") {
      return refused(shown(option), "could give the container other GPUs", "leave it out");
    }
    if (option.name == "cgroups" && option.value != "enabled") {
      return refused(shown(option),
                     "takes the cgroup from the container by which its lease is known",
                     "leave it out");
    }
    if (option.name == "userns") command_.own_user_names = true;
    if (option.name == "cidfile") command_.id_file = option.value.value_or("");
    keep(std::move(option));
    return success();
  }

  Result<ContainerCommand> finish(Parts parts) && {
    command_.engine = parts.before.front();
    Words& words = command_.words;
    words = std::move(parts.before);
    for (Words more : {device_words(), environment_words(), guard_words()})
      words.insert(words.end(), more.begin(), more.end());
    if (command_.id_file.empty() && !grant_.id_file.empty()) {
      command_.id_file = grant_.id_file;
      words.insert(words.end(), {"--cidfile", grant_.id_file});
    }
    words.insert(words.end(), kept_.begin(), kept_.end());
    words.insert(words.end(), parts.after.begin(), parts.after.end());
    return std::move(command_);
  }

 private:
  void keep(EngineOption option) {
    kept_.insert(kept_.end(), option.words.begin(), option.words.end());
  }

  Result<void> leave_out(const EngineOption& option) {
    command_.notes.push_back(fmt::format(
        "{} was left out: the container gets what its lease grants", printable(shown(option))));
    return success();
  }

  Result<void> take_env(EngineOption option) {
    const std::string& value = *option.value;
    const std::string name = value.substr(0, value.find('='));
    if (is_ours(name)) return leave_out(option);
    if (name == "LD_PRELOAD" && !grant_.guard_library.empty() && value.size() > name.size()) {
      preload_ = value.substr(name.size() + 1);  // stands behind the guard
      return success();
    }
    keep(std::move(option));
    return success();
  }

  Result<void> take_device(EngineOption option) {
    if (option.value->starts_with("nvidia.com/")) return leave_out(option);
    if (is_gpu_path(option.value->substr(0, option.value->find(':')))) {
      return refused(shown(option), "would give the container a GPU that was not granted",
                     "leave it out: berth run adds the device that its lease grants");
    }
    keep(std::move(option));
    return success();
  }

  Result<void> take_mount(EngineOption option) {
    const auto [source, target] = source_and_target(option);
    if (is_gpu_path(source)) {
      return refused(shown(option), "would show the container the devices of the machine",
                     "mount the single directories that it needs");
    }
    if (target == "/run" || target.starts_with("/run/berth")) {
      return refused(shown(option), "would hide from the container what its limit is read from",
                     "mount it elsewhere");
    }
    keep(std::move(option));
    return success();
  }

  Words device_words() const {
    Words words;
    if (file_name(command_.engine) == "podman") {
      for (const std::string& uuid : grant_.uuids) {
        if (grant_.device_names) words.insert(words.end(), {"--device", "nvidia.com/gpu=" + uuid});
      }
    } else if (!grant_.uuids.empty()) {
      // The engine reads it as a line of CSV: a list is one field only within quotes.
      const std::string list = fmt::format("device={}", fmt::join(grant_.uuids, ","));
      words = {"--gpus", grant_.uuids.size() == 1 ? list : fmt::format("\"{}\"", list)};
    }
    return words;
  }

  Words environment_words() const {
    Words words;
    for (const auto& [name, value] : grant_.environment)
      words.insert(words.end(), {"-e", fmt::format("{}={}", name, value)});
    return words;
  }

  Words guard_words() const {
    if (grant_.guard_library.empty()) return {};
    std::string preload(kGuardInside);
    if (!preload_.empty()) preload += ":" + preload_;
    const std::string& directory = grant_.grant_directory;
    return {"-e", "LD_PRELOAD=" + preload,
            "-v", fmt::format("{}:{}:ro", grant_.guard_library, kGuardInside),
            "-v", fmt::format("{}:{}:ro", directory, kGrantInside),
            "-v", fmt::format("{}/account:{}/account:rw", directory, kGrantInside)};
  }

  const ContainerGrant& grant_;
  ContainerCommand command_;
  Words kept_;
  std::string preload_;
};

}  // namespace

std::string_view started_engine(const std::vector<std::string>& words) {
  if (words.size() < 2) return {};
  const std::string_view name = file_name(words.front());
  if (name != "docker" && name != "podman") return {};
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "run" || words[i] == "start" || words[i] == "create" || words[i] == "compose")
      return name;
    if (!words[i].starts_with('-') && words[i] != "container") return {};
  }
  return {};
}

Result<ContainerCommand> rewrite_container(const std::vector<std::string>& words,
                                           const ContainerGrant& grant) {
  const std::string_view name = words.empty() ? "" : file_name(words.front());
  if (name != "docker" && name != "podman") {
    return invalid_argument(fmt::format(
        "--container knows docker and podman, not \"{}\"; write `berth run --container … -- docker "
        "run … IMAGE …`, or leave --container out for a plain program",
        printable(words.empty() ? "" : words.front())));
  }
  TRY(Parts parts, parts_of(words));
  if (parts.after.empty()) {
    return invalid_argument(
        fmt::format("`{}` names no image", printable(fmt::format("{}", fmt::join(words, " ")))));
  }
  Rewriter rewriter(grant);
  for (EngineOption& option : parts.options)
    TRY_VOID(rewriter.take(std::move(option)));
  return std::move(rewriter).finish(std::move(parts));
}

}  // namespace berth::cli
