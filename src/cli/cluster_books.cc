#include "cli/cluster_books.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/cluster_scan.h"
#include "kube/client/access.h"
#include "kube/client/client.h"

namespace berth::cli {

namespace {

using json::Value;

// NAMESPACE/SERVICE of the scheduler's face, in the words of the API server's proxy.
std::pair<std::string, std::string> face_of_scheduler() {
  const char* said = std::getenv("BERTH_SCHEDULER_SERVICE");
  const std::string words = said == nullptr ? "berth-system/http:berth-scheduler:8080" : said;
  const std::size_t slash = words.find('/');
  return slash == std::string::npos ? std::pair(std::string("berth-system"), words)
                                    : std::pair(words.substr(0, slash), words.substr(slash + 1));
}

struct Reply {
  int status = 0;
  std::string body;
  std::string words;  // what is wrong with it, for people
};

// Calls one after the other, each waited for.
class Wire {
 public:
  explicit Wire(std::unique_ptr<kube::Client> client) : client_(std::move(client)) {}

  Result<Reply> get(std::string path, kube::Retry retry = kube::Retry::idempotent) {
    std::optional<Result<Reply>> result;
    client_->call({.path = std::move(path), .retry = retry}, [&](const kube::Answer& answer) {
      if (answer.outcome != kube::Outcome::answered) {
        const std::string trouble = client_->trouble();
        result =
            Error{ErrorCode::unavailable, trouble.empty() ? std::string(answer.problem) : trouble};
        return;
      }
      result = Reply{.status = answer.status,
                     .body = std::string(answer.body),
                     .words = answer.ok() ? "" : kube::describe(answer)};
    });
    while (!result.has_value()) {
      client_->turn(Duration(1'000));
    }
    return std::move(*result);
  }

  const kube::Access& access() const { return client_->access(); }

 private:
  std::unique_ptr<kube::Client> client_;
};

class ClusterBooks : public Books {
 public:
  ClusterBooks(Wire wire, std::string namespace_name)
      : wire_(std::move(wire)),
        namespace_(std::move(namespace_name)),
        address_(wire_.access().server) {}

  const std::string& address() const override { return address_; }
  bool has_jobs() const override { return false; }
  std::string remark() const override { return remark_; }

  std::string full_id(const std::string& word) const override {
    return word.contains('/') ? word : namespace_ + "/" + word;
  }

  Result<Value> get(const std::string& target) override {
    if (!alone_) {
      TRY(const Reply reply, ask_scheduler(target));
      if (reply.status >= 200 && reply.status < 300) {
        return json::parse(reply.body);
      }
      if (is_answer_of_scheduler(reply)) {
        return error_of(reply);
      }
      alone_ = true;
      remark_ = fmt::format(
          "No scheduler of Berth answers through {} ({}): this is read from pods and nodes alone, "
          "without places in the queue.",
          address_, reply.words);
    }
    return scan_cluster(target, [&](const std::string& path) -> Result<std::string> {
      TRY(Reply reply, wire_.get(path));
      if (reply.status < 200 || reply.status > 299) {
        return Error{reply.status == 404 ? ErrorCode::not_found : ErrorCode::unavailable,
                     reply.words};
      }
      return std::move(reply.body);
    });
  }

 private:
  // Where it does not answer, the pods do: nobody waits for it. Of several replicas the proxy
  // chooses one by chance, and only the one that leads knows anything.
  Result<Reply> ask_scheduler(const std::string& target) {
    constexpr int kTries = 8;
    const auto [space, service] = face_of_scheduler();
    const std::string path =
        fmt::format("/api/v1/namespaces/{}/services/{}/proxy{}", space, service, target);
    Result<Reply> reply = wire_.get(path, kube::Retry::never);
    for (int i = 1; i < kTries && reply && is_standby(*reply); ++i) {
      reply = wire_.get(path, kube::Retry::never);
    }
    return reply;
  }

  static bool is_standby(const Reply& reply) {
    const Result<Value> body = json::parse(reply.body);
    const Value* error = body ? body->find("error") : nullptr;
    return reply.status == 503 && error != nullptr && error->text("code") == "not-ready";
  }

  // A refusal of the scheduler has our form; one of the API server is a Status.
  static bool is_answer_of_scheduler(const Reply& reply) {
    const Result<Value> body = json::parse(reply.body);
    return body && body->find("error") != nullptr && reply.status != 503;
  }

  static Error error_of(const Reply& reply) {
    const Result<Value> body = json::parse(reply.body);
    const Value* error = body ? body->find("error") : nullptr;
    std::string text(error != nullptr ? error->text("message") : reply.words);
    if (error != nullptr && !error->text("hint").empty()) {
      text += fmt::format("\n  {}", error->text("hint"));
    }
    return {reply.status == 404   ? ErrorCode::not_found
            : reply.status == 400 ? ErrorCode::invalid_argument
                                  : ErrorCode::unavailable,
            std::move(text)};
  }

  Wire wire_;
  std::string namespace_;
  std::string address_;
  bool alone_ = false;  // nobody but the API server answers
  std::string remark_;
};

}  // namespace

Result<std::unique_ptr<Books>> open_cluster(const Arguments& arguments) {
  TRY(kube::Access access,
      kube::find_access({.kubeconfig = arguments.value(kKubeconfigOption.name).value_or(""),
                         .context = arguments.value(kContextOption.name).value_or("")},
                        kube::process_environment()));
  std::string space = arguments.value(kNamespaceOption.name).value_or(access.namespace_name);
  TRY(std::unique_ptr<kube::Client> client, kube::Client::make(std::move(access), {}));
  return std::unique_ptr<Books>(
      std::make_unique<ClusterBooks>(Wire(std::move(client)), std::move(space)));
}

}  // namespace berth::cli
