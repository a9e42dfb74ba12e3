// Books: whom the verbs ask that only read (ps, why, gpus, queues): a daemon, or a cluster.
//
//   TRY(std::unique_ptr<Books> books, open_books(arguments));
//   TRY(json::Array devices, books->list("/v1/devices", "devices"));
//
// Both answer in the same words (leases.md 3), so that tables and sentences exist once.
// Errors are sentences for people that end in what to do next. Thread-safety: none.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/command.h"
#include "json/value.h"

namespace berth::cli {

// Which cluster; any of them, or the program name kubectl-berth, chooses the cluster.
inline constexpr Option kKubeOption{
    .name = "--kube", .help = "ask the Kubernetes cluster of your kubeconfig, not this machine"};
inline constexpr Option kNamespaceOption{
    .name = "--namespace",
    .letter = 'n',
    .kind = ValueKind::text,
    .value = "NAMESPACE",
    .help = "of the pods (default: that of the kubeconfig's context); implies --kube"};
inline constexpr Option kKubeconfigOption{
    .name = "--kubeconfig",
    .kind = ValueKind::file,
    .value = "FILE",
    .help = "which kubeconfig (default: $KUBECONFIG, else ~/.kube/config); implies --kube"};
inline constexpr Option kContextOption{.name = "--context",
                                       .kind = ValueKind::text,
                                       .value = "NAME",
                                       .help = "which of its contexts; implies --kube"};

class Books {
 public:
  virtual ~Books() = default;

  // What an error calls it.
  virtual const std::string& address() const = 0;
  virtual Result<json::Value> get(const std::string& target) = 0;
  // Whether it has jobs beside its leases, as a daemon has and a cluster has not.
  virtual bool has_jobs() const = 0;
  // The id that is meant by the word someone typed: a pod's name gets its namespace.
  virtual std::string full_id(const std::string& word) const { return word; }
  // What someone reads of it before the first table, and should know; empty: nothing.
  virtual std::string remark() const { return {}; }

  // Every page of a list: the items of the array `name`.
  Result<json::Array> list(const std::string& target, std::string_view name);
};

// The cluster when the options or the program's name say so, else the daemon.
Result<std::unique_ptr<Books>> open_books(const Arguments& arguments);
bool wants_cluster(const Arguments& arguments);

// The lease of that id. Where none has it: by the exact key, else an error that names the nearest.
Result<json::Value> find_lease(Books& books, const std::string& id);

}  // namespace berth::cli
