#include "cli/books.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "cli/cluster_books.h"
#include "cli/daemon_client.h"
#include "net/target.h"

namespace berth::cli {

namespace {

// "4" of "l-0004", so that zeros need not be typed.
std::string_view digits_of(std::string_view id) {
  if (id.starts_with("l-")) {
    id.remove_prefix(2);
  }
  return id.substr(std::min(id.find_first_not_of('0'), id.size()));
}

}  // namespace

Result<json::Array> Books::list(const std::string& target, std::string_view name) {
  json::Array all;
  std::string cursor;
  do {
    const std::string more =
        cursor.empty() ? "" : (target.contains('?') ? "&cursor=" : "?cursor=") + cursor;
    TRY(json::Value page, get(target + more));
    const json::Value* items = page.find(name);
    if (items == nullptr || !items->is_array()) {
      return Error{ErrorCode::unavailable,
                   fmt::format("{} does not answer like berth of this version: no `{}` in "
                               "{}",
                               address(), name, target)};
    }
    all.insert(all.end(), items->as_array().begin(), items->as_array().end());
    cursor = net::percent_encoded(page.text("next_cursor"));
  } while (!cursor.empty());
  return all;
}

bool wants_cluster(const Arguments& arguments) {
  return arguments.has(kKubeOption.name) || arguments.value(kNamespaceOption.name) ||
         arguments.value(kKubeconfigOption.name) || arguments.value(kContextOption.name);
}

Result<std::unique_ptr<Books>> open_books(const Arguments& arguments) {
  if (wants_cluster(arguments)) {
    return open_cluster(arguments);
  }
  TRY(DaemonClient daemon, DaemonClient::open(arguments));
  return std::unique_ptr<Books>(std::make_unique<DaemonClient>(std::move(daemon)));
}

Result<json::Value> find_lease(Books& books, const std::string& id) {
  Result<json::Value> lease = books.get("/v1/leases/" + net::percent_encoded(id));
  if (lease || lease.error().code() != ErrorCode::not_found || !books.has_jobs()) {
    return lease;
  }
  TRY(const json::Array known, books.list("/v1/leases?limit=10000", "leases"));
  std::vector<std::string> ids;
  for (const json::Value& one : known) {
    if (one.text("key") == id || digits_of(one.text("id")) == digits_of(id)) {
      return one;
    }
    ids.emplace_back(one.text("id"));
  }
  const std::string near = ids.empty() ? "" : nearest(id, ids);
  const bool named = !near.empty() && edit_distance(id, near) <= 2;
  return Error{ErrorCode::not_found,
               fmt::format("you have no lease {}{} `berth ps --all` lists yours.", printable(id),
                           named ? fmt::format("; did you mean {}?", near) : ".")};
}

}  // namespace berth::cli
