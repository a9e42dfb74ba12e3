#include "kube/client/access.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "kube/client/kubeconfig.h"
#include "kube/client/text.h"

namespace berth::kube {

namespace {

std::string variable(const Environment& environment, std::string_view name) {
  return environment.get ? environment.get(name).value_or("") : std::string();
}

std::string absolute(const Environment& environment, std::string path) {
  if (path.starts_with('/') || environment.working_directory.empty()) return path;
  return environment.working_directory + "/" + path;
}

std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t colon = std::min(list.find(':'), list.size());
    if (colon > 0) parts.emplace_back(list.substr(0, colon));
    list.remove_prefix(std::min(colon + 1, list.size()));
  }
  return parts;
}

Result<Access> from_files(const std::vector<std::string>& paths, bool may_be_missing,
                          const AccessOptions& options, const Environment& environment) {
  std::vector<ConfigFile> files;
  for (const std::string& path : paths) {
    ConfigFile file{.path = absolute(environment, path)};
    Result<std::string> text = read_small_file(file.path);
    if (!text.ok()) {
      if (may_be_missing && text.error().code() == ErrorCode::not_found) continue;
      return std::move(text).error();
    }
    file.text = std::move(text).value();
    files.push_back(std::move(file));
  }
  if (files.empty()) {
    std::string names;
    for (const std::string& path : paths)
      names += (names.empty() ? "" : ", ") + path;
    return Error(ErrorCode::not_found, fmt::format("there is no kubeconfig at {}", names));
  }
  return read_kubeconfig(files, options.context);
}

Result<Access> from_service_account(const Environment& environment) {
  const std::string& folder = environment.service_account_folder;
  std::string host = variable(environment, "KUBERNETES_SERVICE_HOST");
  const std::string port = variable(environment, "KUBERNETES_SERVICE_PORT");
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  Access access{.server = fmt::format("https://{}:{}", host, port.empty() ? "443" : port),
                .ca_file = folder + "/ca.crt",
                .origin = "the pod's service account"};
  access.identity.token_file = folder + "/token";
  for (const std::string& file : {access.ca_file, access.identity.token_file}) {
    if (const Result<std::string> text = read_small_file(file); !text.ok()) {
      return Error(text.error().code(),
                   fmt::format("{}; set automountServiceAccountToken: true on the pod, or give "
                               "--kubeconfig",
                               text.error().message()));
    }
  }
  TRY(access.ca_pem, read_small_file(access.ca_file));
  const Result<std::string> space = read_small_file(folder + "/namespace");
  if (space.ok() && !trimmed(*space).empty()) access.namespace_name = trimmed(*space);
  return access;
}

}  // namespace

Environment process_environment() {
  Environment environment;
  environment.get = [](std::string_view name) -> std::optional<std::string> {
    const char* value = getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
  if (char* here = getcwd(nullptr, 0); here != nullptr) {
    environment.working_directory = here;
    free(here);  // NOLINT: the system's own
  }
  return environment;
}

Result<Access> find_access(const AccessOptions& options, const Environment& environment) {
  if (!options.kubeconfig.empty()) {
    return from_files({options.kubeconfig}, false, options, environment);
  }
  if (const std::string list = variable(environment, "KUBECONFIG"); !list.empty()) {
    return from_files(split_list(list), true, options, environment);
  }
  const bool in_pod = !variable(environment, "KUBERNETES_SERVICE_HOST").empty();
  if (in_pod && options.context.empty()) return from_service_account(environment);
  const std::string home = variable(environment, "HOME");
  if (!home.empty()) {
    Result<Access> access = from_files({home + "/.kube/config"}, false, options, environment);
    if (access.ok() || access.error().code() != ErrorCode::not_found) return access;
    if (!options.context.empty()) return access;
  }
  return Error(ErrorCode::not_found,
               "no cluster is configured: give --kubeconfig FILE, set KUBECONFIG, or run in a pod "
               "with a service account");
}

}  // namespace berth::kube
