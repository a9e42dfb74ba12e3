#include "serve/job_spec.h"

#include <algorithm>
#include <grp.h>
#include <map>
#include <pwd.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

namespace berth::serve {

namespace {

// The user as the machine knows him, with his groups.
local::RunAs run_as(std::uint32_t uid, std::uint32_t gid) {
  local::RunAs user{.uid = uid, .gid = gid, .groups = {}};
  std::vector<char> buffer(16'384);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    int count = 64;
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    if (getgrouplist(found->pw_name, gid, groups.data(), &count) >= 0) {
      groups.resize(static_cast<std::size_t>(count));
      user.groups.assign(groups.begin(), groups.end());
    }
  }
  return user;
}

}  // namespace

bool may_run_as(std::uint32_t uid) { return geteuid() == 0 || geteuid() == uid; }

local::JobSpec job_spec(const jobs::Job& job, const json::Value& lease_environment) {
  std::map<std::string, std::string> variables;
  for (const std::string& pair : job.environment) {
    const std::size_t equals = std::min(pair.find('='), pair.size());
    variables[pair.substr(0, equals)] = pair.substr(std::min(equals + 1, pair.size()));
  }
  for (const auto& [name, value] : lease_environment.as_object()) {
    std::string& variable = variables[name];
    const bool keeps = name == "LD_PRELOAD" && !variable.empty();
    variable = keeps ? value.as_string() + ":" + variable : value.as_string();
  }
  variables["BERTH_JOB_ID"] = job.id;
  if (!job.array.empty()) {
    variables["BERTH_ARRAY_ID"] = job.array;
    variables["BERTH_ARRAY_INDEX"] = std::to_string(job.index);
  }
  local::JobSpec spec{.command = job.command,
                      .environment = {},
                      .directory = job.directory,
                      .lease = job.lease,
                      .umask = job.umask,
                      .max_time = job.max_run,
                      .grace = job.grace};
  for (const auto& [name, value] : variables) {
    spec.environment.push_back(fmt::format("{}={}", name, value));
  }
  if (geteuid() == 0 && job.who.uid != 0) {
    spec.user = run_as(job.who.uid, job.who.gid);
  }
  return spec;
}

}  // namespace berth::serve
