// Jobs as the verbs see them. Thread-safety: none.
#pragma once

#include <string>
#include <string_view>

#include "cli/books.h"
#include "json/value.h"

namespace berth::cli {

// "j-0007" or "j-0007_3": a job or an array, not a lease.
bool is_job_id(std::string_view id);

// The jobs of that id: one, or the elements of an array. `query`: "", or "?wait=…". Errors:
// not_found with the nearest.
Result<json::Array> find_jobs(Books& books, const std::string& id, const std::string& query = {});

bool is_over(const json::Value& job);

// "exit status 3", "killed by signal 9", else its reason; empty if there is nothing to say.
std::string outcome_of(const json::Value& job);

}  // namespace berth::cli
