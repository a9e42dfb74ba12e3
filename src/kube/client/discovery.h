// Discovery: which groups, versions and resources the server has (kubernetes-api.md 3).
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/client/call.h"

namespace berth::kube {

struct ServerInfo {
  std::string version = {};  // "v1.36.3"
  int major = 0;
  int minor = 0;
  // "resource.k8s.io/v1" -> plural names of its resources, sorted; the core group is "v1".
  std::map<std::string, std::vector<std::string>> resources = {};

  bool has(std::string_view group_version, std::string_view resource) const;
  // The first of the versions, in the caller's order of liking, that has the resource; empty: none.
  // E.g. preferred("scheduling.k8s.io", {"v1", "v1beta1"}, "podgroups").
  std::string preferred(std::string_view group, std::initializer_list<std::string_view> versions,
                        std::string_view resource) const;
};

using Discovered = std::move_only_function<void(Result<ServerInfo>)>;

// Three reads. Errors: unavailable, with the server's words.
void discover(Caller& caller, Discovered done);

}  // namespace berth::kube
