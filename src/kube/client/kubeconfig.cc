#include "kube/client/kubeconfig.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "kube/client/text.h"
#include "yaml/tree.h"

namespace berth::kube {

namespace {

struct Parsed {
  std::string path;
  yaml::Node root;
};

// One entry of a list such as `users`, and where it stands.
struct Found {
  const Parsed* file = nullptr;
  const yaml::Node* body = nullptr;
};

// Reads fields of one mapping of a file.
class Fields {
 public:
  Fields(const Parsed& file, const yaml::Node& node, std::string what)
      : file_(file), node_(node), what_(std::move(what)) {}

  const Parsed& file() const { return file_; }
  const std::string& what() const { return what_; }

  const yaml::Node* find(std::string_view name) const {
    const yaml::Node* found = node_.find(name);
    return found == nullptr || found->is_null() ? nullptr : found;
  }

  // Empty where the field is not written.
  Result<std::string> text(std::string_view name) const {
    const yaml::Node* found = find(name);
    if (found == nullptr) return std::string();
    if (!found->is_scalar()) return wrong(*found, name, "a text");
    return found->text;
  }

  Result<bool> flag(std::string_view name) const {
    const yaml::Node* found = find(name);
    if (found == nullptr) return false;
    if (found->is_scalar() && found->text == "true") return true;
    if (found->is_scalar() && found->text == "false") return false;
    return wrong(*found, name, "true or false");
  }

  Result<std::vector<std::string>> texts(std::string_view name) const {
    std::vector<std::string> all;
    const yaml::Node* found = find(name);
    if (found == nullptr) return all;
    if (!found->is_list()) return wrong(*found, name, "a list of texts");
    for (const yaml::Node& item : found->items) {
      if (!item.is_scalar()) return wrong(item, name, "a list of texts");
      all.push_back(item.text);
    }
    return all;
  }

  // A path, from the folder of the file.
  Result<std::string> path(std::string_view name) const {
    TRY(std::string written, text(name));
    return from_folder(std::move(written));
  }

  std::string from_folder(std::string written) const {
    if (written.empty() || written.starts_with('/')) return written;
    const std::size_t slash = file_.path.rfind('/');
    return slash == std::string::npos ? written : file_.path.substr(0, slash + 1) + written;
  }

  // Base64 of PEM.
  Result<std::string> data(std::string_view name) const {
    TRY(const std::string written, text(name));
    if (written.empty()) return written;
    std::optional<std::string> bytes = from_base64(written);
    if (!bytes.has_value()) {
      return yaml::error_at(file_.path, find(name)->line, find(name)->column,
                            fmt::format("{} of {} is not base64", name, what_));
    }
    return *std::move(bytes);
  }

  Error wrong(const yaml::Node& node, std::string_view name, std::string_view wanted) const {
    return yaml::error_at(file_.path, node.line, node.column,
                          fmt::format("{} of {} must be {}, not a {}", name, what_, wanted,
                                      yaml::kind_name(node.kind)));
  }

 private:
  const Parsed& file_;
  const yaml::Node& node_;
  std::string what_;
};

Result<std::vector<Parsed>> parse_all(const std::vector<ConfigFile>& files) {
  // A bundle of authorities is one line.
  const yaml::Limits limits{.max_line_bytes = std::size_t{4} << 20U};
  std::vector<Parsed> all;
  for (const ConfigFile& file : files) {
    TRY(std::vector<yaml::Node> documents, yaml::parse(file.text, file.path, limits));
    if (documents.empty() || documents.front().is_null()) continue;
    if (!documents.front().is_map()) {
      return invalid_argument(fmt::format("{} is no kubeconfig: it is a {}", file.path,
                                          yaml::kind_name(documents.front().kind)));
    }
    all.push_back({.path = file.path, .root = std::move(documents.front())});
  }
  return all;
}

std::string names_of(const std::vector<Parsed>& files) {
  std::string names;
  for (const Parsed& file : files)
    names += (names.empty() ? "" : ", ") + file.path;
  return names;
}

// The entry `name` of the list `list`, e.g. ("contexts", "context").
struct Wanted {
  std::string_view list;
  std::string_view field;
};

Result<Found> find_entry(const std::vector<Parsed>& files, const Wanted& wanted,
                         std::string_view name, std::string_view asked_by) {
  std::vector<std::string> others;
  for (const Parsed& file : files) {
    const yaml::Node* list = file.root.find(wanted.list);
    if (list == nullptr || list->is_null()) continue;
    if (!list->is_list()) {
      return yaml::error_at(file.path, list->line, list->column,
                            fmt::format("{} must be a list", wanted.list));
    }
    for (const yaml::Node& entry : list->items) {
      const yaml::Node* its = entry.find("name");
      if (its == nullptr || !its->is_scalar()) continue;
      const yaml::Node* body = entry.find(wanted.field);
      if (its->text != name) {
        others.push_back(its->text);
      } else if (body == nullptr || !body->is_map()) {
        return yaml::error_at(
            file.path, entry.line, entry.column,
            fmt::format("{} {:?} has no mapping {:?}", wanted.field, name, wanted.field));
      } else {
        return Found{.file = &file, .body = body};
      }
    }
  }
  std::string known;
  for (const std::string& other : others)
    known += (known.empty() ? "" : ", ") + other;
  return Error(ErrorCode::not_found,
               fmt::format("{} has no {} {:?}{}; {}", names_of(files), wanted.field, name, asked_by,
                           known.empty() ? "it has none" : "it has: " + known));
}

Result<std::string> choose_context(const std::vector<Parsed>& files, std::string_view context) {
  if (!context.empty()) return std::string(context);
  for (const Parsed& file : files) {
    const yaml::Node* current = file.root.find("current-context");
    if (current != nullptr && current->is_scalar() && !current->text.empty()) {
      return current->text;
    }
  }
  return Error(ErrorCode::not_found,
               fmt::format("{} names no current context; choose one with `kubectl config "
                           "use-context NAME`",
                           files.empty() ? "the kubeconfig" : names_of(files)));
}

Result<void> read_server(const Fields& fields, Access& access) {
  TRY(access.server, fields.text("server"));
  if (access.server.find("://") == std::string::npos && !access.server.empty()) {
    access.server = "https://" + access.server;
  }
  while (access.server.ends_with('/'))
    access.server.pop_back();
  const bool known = access.server.starts_with("https://") || access.server.starts_with("http://");
  const bool clean = std::ranges::all_of(access.server, [](char c) { return c > ' ' && c < 127; });
  if (!known || !clean || access.server.find('@') != std::string::npos) {
    const std::string shown = access.server.empty() ? "is not given" : "is no http(s) address";
    return invalid_argument(
        fmt::format("{}: server of {} {}", fields.file().path, fields.what(), shown));
  }
  return success();
}

Result<void> read_cluster(const Fields& fields, Access& access) {
  TRY_VOID(read_server(fields, access));
  TRY(access.tls_server_name, fields.text("tls-server-name"));
  TRY(access.insecure, fields.flag("insecure-skip-tls-verify"));
  TRY(access.proxy_url, fields.text("proxy-url"));
  TRY(access.ca_pem, fields.data("certificate-authority-data"));
  if (access.ca_pem.empty()) {
    TRY(access.ca_file, fields.path("certificate-authority"));
    if (!access.ca_file.empty()) {
      Result<std::string> pem = read_small_file(access.ca_file);
      if (!pem.ok()) {
        return Error(pem.error().code(),
                     fmt::format("{} ({}, certificate-authority of {})", pem.error().message(),
                                 fields.file().path, fields.what()));
      }
      access.ca_pem = std::move(pem).value();
    }
  }
  if (access.insecure && !access.ca_pem.empty()) {
    return invalid_argument(
        fmt::format("{}: {} has both insecure-skip-tls-verify and a "
                    "certificate authority; remove one of them",
                    fields.file().path, fields.what()));
  }
  return success();
}

Result<void> read_exec(const Fields& fields, Identity& identity) {
  const yaml::Node* node = fields.find("exec");
  if (node == nullptr) return success();
  if (!node->is_map()) return fields.wrong(*node, "exec", "a mapping");
  const Fields exec(fields.file(), *node, "exec of " + fields.what());
  ExecPlugin plugin;
  TRY(plugin.api_version, exec.text("apiVersion"));
  TRY(plugin.command, exec.text("command"));
  TRY(plugin.arguments, exec.texts("args"));
  TRY(plugin.install_hint, exec.text("installHint"));
  TRY(plugin.interactive_mode, exec.text("interactiveMode"));
  TRY(plugin.provide_cluster_info, exec.flag("provideClusterInfo"));
  const auto refuse = [&](std::string_view what) {
    return yaml::error_at(fields.file().path, node->line, node->column,
                          fmt::format("{} {}", exec.what(), what));
  };
  if (plugin.command.empty()) return refuse("names no command");
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = exec.from_folder(plugin.command);
  }
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    return refuse(
        fmt::format("has apiVersion {:?}; client.authentication.k8s.io/v1 or v1beta1 is "
                    "expected: bring the plug-in up to date",
                    plugin.api_version));
  }
  if (plugin.interactive_mode.empty() && plugin.api_version.ends_with("/v1")) {
    return refuse("needs interactiveMode: Never, IfAvailable or Always");
  }
  if (plugin.interactive_mode == "Always") {
    return refuse(
        "wants a terminal (interactiveMode: Always), and there is none; use a token or "
        "a client certificate");
  }
  if (const yaml::Node* variables = exec.find("env"); variables != nullptr) {
    if (!variables->is_list()) return exec.wrong(*variables, "env", "a list");
    for (const yaml::Node& item : variables->items) {
      const Fields variable(fields.file(), item, "env of " + exec.what());
      TRY(std::string name, variable.text("name"));
      TRY(std::string value, variable.text("value"));
      plugin.environment.emplace_back(std::move(name), std::move(value));
    }
  }
  identity.exec = std::move(plugin);
  return success();
}

Result<void> read_impersonation(const Fields& fields, Identity& identity) {
  TRY(identity.as_user, fields.text("as"));
  TRY(identity.as_uid, fields.text("as-uid"));
  TRY(identity.as_groups, fields.texts("as-groups"));
  if (const yaml::Node* extra = fields.find("as-user-extra"); extra != nullptr) {
    if (!extra->is_map()) return fields.wrong(*extra, "as-user-extra", "a mapping");
    const Fields extras(fields.file(), *extra, "as-user-extra of " + fields.what());
    for (const yaml::Entry& entry : extra->entries) {
      TRY(std::vector<std::string> values, extras.texts(entry.key));
      for (std::string& value : values) {
        identity.as_extra.emplace_back(entry.key, std::move(value));
      }
    }
  }
  // They become headers.
  const auto dirty = [](const std::string& text) {
    return std::ranges::any_of(text, [](char c) { return c < ' ' || c == '\x7f'; });
  };
  bool bad = dirty(identity.as_user) || dirty(identity.as_uid);
  for (const std::string& group : identity.as_groups)
    bad = bad || dirty(group);
  for (const auto& [key, value] : identity.as_extra)
    bad = bad || dirty(value);
  if (!bad) return success();
  return invalid_argument(
      fmt::format("{}: the impersonation of {} has a line end or another "
                  "control character",
                  fields.file().path, fields.what()));
}

Result<void> read_user(const Fields& fields, Identity& identity) {
  if (const yaml::Node* legacy = fields.find("auth-provider"); legacy != nullptr) {
    const yaml::Node* name = legacy->find("name");
    return yaml::error_at(
        fields.file().path, legacy->line, legacy->column,
        fmt::format("{} uses auth-provider {:?}, which Kubernetes has removed; use the exec "
                    "plug-in of your provider, or a token",
                    fields.what(), name == nullptr ? "" : name->text));
  }
  TRY(identity.token, fields.text("token"));
  TRY(identity.token_file, fields.path("tokenFile"));
  TRY(identity.username, fields.text("username"));
  TRY(identity.password, fields.text("password"));
  TRY(identity.certificate_pem, fields.data("client-certificate-data"));
  TRY(identity.key_pem, fields.data("client-key-data"));
  if (identity.certificate_pem.empty()) {
    TRY(identity.certificate_file, fields.path("client-certificate"));
  }
  if (identity.key_pem.empty()) {
    TRY(identity.key_file, fields.path("client-key"));
  }
  const bool has_certificate =
      !identity.certificate_pem.empty() || !identity.certificate_file.empty();
  const bool has_key = !identity.key_pem.empty() || !identity.key_file.empty();
  if (has_certificate != has_key) {
    return invalid_argument(fmt::format("{}: {} has a client {} without its {}", fields.file().path,
                                        fields.what(), has_certificate ? "certificate" : "key",
                                        has_certificate ? "key" : "certificate"));
  }
  TRY_VOID(read_exec(fields, identity));
  return read_impersonation(fields, identity);
}

}  // namespace

Result<Access> read_kubeconfig(const std::vector<ConfigFile>& files, std::string_view context) {
  TRY(const std::vector<Parsed> parsed, parse_all(files));
  if (parsed.empty()) {
    std::string names;
    for (const ConfigFile& file : files)
      names += (names.empty() ? "" : ", ") + file.path;
    return Error(ErrorCode::not_found, fmt::format("{} is empty: no cluster is named", names));
  }
  TRY(const std::string name, choose_context(parsed, context));
  TRY(const Found found, find_entry(parsed, {.list = "contexts", .field = "context"}, name, ""));
  const Fields of_context(*found.file, *found.body, fmt::format("context {:?}", name));
  TRY(const std::string cluster, of_context.text("cluster"));
  TRY(const std::string user, of_context.text("user"));
  TRY(const std::string space, of_context.text("namespace"));

  Access access;
  access.origin = fmt::format("context {:?} of {}", name, found.file->path);
  if (!space.empty()) access.namespace_name = space;
  const std::string asked = fmt::format(", which context {:?} names", name);
  TRY(const Found where,
      find_entry(parsed, {.list = "clusters", .field = "cluster"}, cluster, asked));
  TRY_VOID(
      read_cluster(Fields(*where.file, *where.body, fmt::format("cluster {:?}", cluster)), access));
  if (user.empty()) return access;
  TRY(const Found who, find_entry(parsed, {.list = "users", .field = "user"}, user, asked));
  TRY_VOID(
      read_user(Fields(*who.file, *who.body, fmt::format("user {:?}", user)), access.identity));
  return access;
}

}  // namespace berth::kube
