// Access: which API server, and as whom (kubernetes-api.md 9).
//
//   TRY(Access access, find_access({.kubeconfig = flag}, process_environment()));
//
// From the flag, else the files of $KUBECONFIG, else the pod's service account, else
// ~/.kube/config. What cannot be used is refused in one sentence that names the file, the entry
// and the way out. Nothing secret ever stands in an error or in `origin`. Thread-safety: values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace berth::kube {

struct Environment {
  std::function<std::optional<std::string>(std::string_view)> get = {};
  std::string working_directory = {};
  std::string service_account_folder = "/var/run/secrets/kubernetes.io/serviceaccount";
};

Environment process_environment();

// A program that prints credentials (client.authentication.k8s.io).
struct ExecPlugin {
  std::string api_version = {};
  std::string command = {};  // a name on the PATH, or a path
  std::vector<std::string> arguments = {};
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string install_hint = {};
  std::string interactive_mode = {};  // Never, IfAvailable, Always
  bool provide_cluster_info = false;
};

// Who we are. Of several, the order is that of kubectl: exec, token file, token, password.
struct Identity {
  std::string token = {};
  std::string token_file = {};  // read again every minute and after a 401
  std::string username = {};
  std::string password = {};
  // PEM, from the file or inline; the files are read again like the token.
  std::string certificate_pem = {};
  std::string certificate_file = {};
  std::string key_pem = {};
  std::string key_file = {};
  std::optional<ExecPlugin> exec = {};
  std::string as_user = {};
  std::string as_uid = {};
  std::vector<std::string> as_groups = {};
  std::vector<std::pair<std::string, std::string>> as_extra = {};
};

struct Access {
  std::string server = {};   // "https://host:port", with a path if it has one, without a last '/'
  std::string ca_pem = {};   // empty: the system's authorities
  std::string ca_file = {};  // where it came from, if from a file
  std::string tls_server_name = {};
  bool insecure = false;
  std::string proxy_url = {};
  std::string namespace_name = "default";
  Identity identity = {};
  std::string origin = {};  // "context dev of /home/u/.kube/config", "the pod's service account"
};

struct AccessOptions {
  std::string kubeconfig = {};  // one file; empty: see above
  std::string context = {};     // empty: the current one
};

// Errors: invalid_argument (what the files say), not_found (no file, no such context),
// unavailable (a file that cannot be read).
Result<Access> find_access(const AccessOptions& options, const Environment& environment);

}  // namespace berth::kube
