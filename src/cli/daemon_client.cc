#include "cli/daemon_client.h"

#include <algorithm>
#include <cstdlib>
#include <ostream>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/suggest.h"
#include "cli/usual_places.h"
#include "net/target.h"
#include "sim/files.h"

namespace berth::cli {

namespace {

constexpr std::size_t kMostValue = 80;  // of a refused value, in a message

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

Result<std::string> token_of(const DaemonClient::Where& where) {
  std::string path = where.token_file.value_or("");
  if (path.empty()) {
    if (std::string token = variable("BERTH_TOKEN"); !token.empty()) {
      return token;
    }
    path = variable("BERTH_TOKEN_FILE");
  }
  if (path.empty()) {
    return std::string();
  }
  TRY(std::string token, sim::read_input_file(path));
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (token.empty() || token.find_first_of("\r\n") != std::string::npos) {
    return invalid_argument(fmt::format(
        "{} does not hold one line with a token: ask the administrator of the daemon for one",
        printable(path)));
  }
  return token;
}

// Nobody listened at the usual places.
Error nobody(const std::vector<std::string>& addresses, const std::vector<Error>& errors) {
  std::string text = "no berth daemon answers\n";
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    text += fmt::format("  {}: {}\n", addresses[i], errors[i].message());
  }
  text +=
      "Start one with `berth serve` (without a GPU, to try it: `berth serve --simulate 2x16GiB`), "
      "or name\nthe one you mean with --address or BERTH_SOCKET.";
  return {ErrorCode::unavailable, std::move(text)};
}

ErrorCode code_of(int status) {
  switch (status) {
    case 400:
    case 405:
    case 413: return ErrorCode::invalid_argument;
    case 404: return ErrorCode::not_found;
    case 401:
    case 403:
    case 409:
    case 410:
    case 422: return ErrorCode::conflict;
    case 429: return ErrorCode::exhausted;
    case 503: return ErrorCode::unavailable;
    default: return ErrorCode::internal;
  }
}

}  // namespace

std::string full_address(std::string_view words) {
  const bool path = words.starts_with('/') || words.starts_with("./");
  return (path ? "unix:" : "") + std::string(words);
}

Result<DaemonClient> DaemonClient::open(const Arguments& arguments) {
  return open(Where{.address = arguments.value(kAddressOption.name),
                    .token_file = arguments.value(kTokenFileOption.name),
                    .ca_file = arguments.value(kCaFileOption.name)});
}

Result<DaemonClient> DaemonClient::open(const Where& where) {
  net::ClientOptions options;
  TRY(options.token, token_of(where));
  options.ca_file = where.ca_file.value_or("");
  std::string said = where.address.value_or("");
  if (said.empty()) {
    said = variable("BERTH_SOCKET");
  }
  if (!said.empty()) {
    std::string address = full_address(said);
    TRY(net::Client client, net::Client::connect(address, options));
    return DaemonClient(std::move(client), std::move(address));
  }
  const std::vector<std::string> addresses = usual_addresses();
  std::vector<Error> errors;
  for (const std::string& address : addresses) {
    Result<net::Client> client = net::Client::connect(address, options);
    if (client) {
      return DaemonClient(std::move(*client), address);
    }
    errors.push_back(client.error());
  }
  return nobody(addresses, errors);
}

Error DaemonClient::error_of(const net::Response& response) {
  const Result<json::Value> body = json::parse(response.body);
  const json::Value* error = body ? body->find("error") : nullptr;
  if (error == nullptr || error->text("message").empty()) {
    return {code_of(response.status), fmt::format("the daemon answered {} {}", response.status,
                                                  net::reason_phrase(response.status))};
  }
  std::string text(error->text("message"));
  const std::string value = printable(error->text("value"));
  if (response.status == 400 && !value.empty() && !text.contains(value)) {
    text += fmt::format(" ({}: {})", printable(error->text("field")), shortened(value, kMostValue));
  }
  if (response.status == 401) {
    text +=
        "\n  name the file of one with --token-file; `berth token new` makes it, on the machine of "
        "the daemon";
  } else if (const std::string_view hint = error->text("hint"); !hint.empty()) {
    text += fmt::format("\n  {}", hint);
  }
  return {code_of(response.status), std::move(text)};
}

Result<json::Value> DaemonClient::get(const std::string& target) { return send("GET", target); }

Result<json::Value> DaemonClient::send(const std::string& method, const std::string& target,
                                       const std::optional<json::Value>& body) {
  net::Call call{.method = method, .target = target};
  if (body.has_value()) {
    call.body = json::dump(*body);
  }
  // A long poll answers after up to 60 s.
  call.timeout = Duration(target.contains("wait=") ? 90'000 : 30'000);
  TRY(const net::Response response, client_.call(call));
  if (response.status < 200 || response.status > 299) {
    return error_of(response);
  }
  return json::parse(response.body);
}

ExitCode fail(std::string_view verb, const Error& error, Console& console) {
  console.err << "berth " << verb << ": " << printable_lines(error.to_string()) << "\n";
  return error.code() == ErrorCode::invalid_argument ? ExitCode::usage : ExitCode::failed;
}

}  // namespace berth::cli
