// Kubeconfig files: several read as one, and one context taken out of them (kubernetes-api.md 9).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/client/access.h"

namespace berth::kube {

struct ConfigFile {
  std::string path = {};
  std::string text = {};
};

// Of several files the first that has a name or a value wins, whole entries at a time. Relative
// paths are taken from the folder of the file they stand in. `context`: empty: the current one.
// Reads the files that the entries name, except tokens and client certificates, which are read
// again and again later. Errors: as find_access().
Result<Access> read_kubeconfig(const std::vector<ConfigFile>& files, std::string_view context);

}  // namespace berth::kube
