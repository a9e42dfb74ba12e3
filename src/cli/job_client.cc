#include "cli/job_client.h"

#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "net/target.h"

namespace berth::cli {

using json::Value;

bool is_job_id(std::string_view id) { return id.starts_with("j-"); }

Result<json::Array> find_jobs(Books& books, const std::string& id, const std::string& query) {
  Result<json::Array> found = books.list("/v1/jobs/" + net::percent_encoded(id) + query, "jobs");
  if (found || found.error().code() != ErrorCode::not_found) {
    return found;
  }
  TRY(const json::Array known, books.list("/v1/jobs?all=1", "jobs"));
  std::vector<std::string> ids;
  for (const Value& job : known) {
    ids.emplace_back(job.text("id"));
    ids.emplace_back(job.text("array"));
  }
  std::erase(ids, "");
  const std::string near = ids.empty() ? "" : nearest(id, ids);
  const bool named = !near.empty() && edit_distance(id, near) <= 3;
  return Error{ErrorCode::not_found,
               fmt::format("you have no job {}{} `berth ps --all` lists yours.", printable(id),
                           named ? fmt::format("; did you mean {}?", near) : ".")};
}

bool is_over(const Value& job) {
  const std::string_view state = job.text("state");
  return state != "held" && state != "waiting" && state != "starting" && state != "running" &&
         state != "ending";
}

std::string outcome_of(const Value& job) {
  if (const Value* code = job.find("exit_code"); code != nullptr && code->is_integer()) {
    return fmt::format("exit status {}", code->as_integer());
  }
  if (const Value* signal = job.find("signal"); signal != nullptr && signal->is_integer()) {
    return fmt::format("killed by signal {}", signal->as_integer());
  }
  return std::string(job.text("reason"));
}

}  // namespace berth::cli
