// DaemonClient: what the verbs speak to `berth serve` through.
//
//   TRY(DaemonClient daemon, DaemonClient::open(arguments));      // the verb has kDaemonOptions
//   TRY(json::Value devices, daemon.get("/v1/devices"));
//
// Which daemon: --address, else $BERTH_SOCKET, else the first that listens of the machine's
// (/run/berth/berth.sock) and the user's own ($XDG_RUNTIME_DIR/berth/berth.sock). Who we are: over
// a Unix socket the kernel says so; else the token of --token-file, $BERTH_TOKEN or
// $BERTH_TOKEN_FILE.
//
// Errors are sentences for people that end in what to do next. Their code tells the exit status:
// invalid_argument is 2, everything else 1. Thread-safety: none.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/books.h"
#include "cli/command.h"
#include "json/value.h"
#include "net/client.h"

namespace berth::cli {

inline constexpr Option kAddressOption{
    .name = "--address",
    .kind = ValueKind::text,
    .value = "ADDRESS",
    .help =
        "the daemon: unix:/path or https://host:port (default: $BERTH_SOCKET, else this "
        "machine's, else your own)"};
inline constexpr Option kTokenFileOption{
    .name = "--token-file",
    .kind = ValueKind::file,
    .value = "FILE",
    .help = "bearer token for https (default: $BERTH_TOKEN, else the file $BERTH_TOKEN_FILE)"};
inline constexpr Option kCaFileOption{.name = "--ca-file",
                                      .kind = ValueKind::file,
                                      .value = "FILE",
                                      .help = "PEM of who signed the daemon's certificate"};

// -o of verbs whose table has a wider form.
inline constexpr Option kWideOutputOption{
    .name = "--output",
    .letter = 'o',
    .kind = ValueKind::choice,
    .value = "FORMAT",
    .help = "table, wide, json or yaml",
    .fallback = "table",
    .choices = [] { return std::vector<std::string>{"table", "wide", "json", "yaml"}; }};

// "unix:/path" of "/path"; everything else as it is.
std::string full_address(std::string_view words);

class DaemonClient : public Books {
 public:
  struct Where {
    std::optional<std::string> address;  // as given; empty: the usual ones
    std::optional<std::string> token_file;
    std::optional<std::string> ca_file;
  };

  // Errors: unavailable (nobody listens: where was looked, and how to start one),
  // invalid_argument (an address or a token file that cannot be used).
  static Result<DaemonClient> open(const Arguments& arguments);
  static Result<DaemonClient> open(const Where& where);

  const std::string& address() const override { return address_; }

  // Errors: see error_of(), and those of net::Client.
  Result<json::Value> get(const std::string& target) override;
  bool has_jobs() const override { return true; }
  Result<json::Value> send(const std::string& method, const std::string& target,
                           const std::optional<json::Value>& body = std::nullopt);

  net::Client& wire() { return client_; }

  // What an answer other than 2xx means: message, then what to do about it.
  static Error error_of(const net::Response& response);

 private:
  DaemonClient(net::Client client, std::string address)
      : client_(std::move(client)), address_(std::move(address)) {}

  net::Client client_;
  std::string address_;
};

// "berth ps: …" on stderr, and the exit status that goes with it.
ExitCode fail(std::string_view verb, const Error& error, Console& console);

}  // namespace berth::cli
