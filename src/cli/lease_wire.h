// LeaseWire: the calls of the lease API (leases.md 3.1) that a holder of a lease makes, as values.
//
//   LeaseWire wire("unix:/run/berth/berth.sock");
//   TRY(LeaseAnswer answer, wire.reserve(body));
//   if (!answer.ok()) … answer.code, answer.message, answer.hint …
//
// A refusal is an answer, not an error: the holder decides by its code. An Error says that there
// was no answer, and that what was asked may or may not have been done; the next call connects
// anew. Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/value.h"
#include "net/client.h"

namespace berth::cli {

struct LeaseAnswer {
  int status = 0;
  json::Value lease;    // null in a refusal
  std::string code;     // of a refusal, as leases.md 3.5; empty: none
  std::string message;  // of a refusal
  std::string hint;
  std::optional<Duration> retry_after;  // of a refusal for now
  std::optional<std::int64_t>
      largest_mib;  // of a refusal for ever: of memory, what would be possible

  bool ok() const { return code.empty(); }
  std::string_view state() const { return lease.text("state"); }
  std::string_view id() const { return lease.text("id"); }
};

class LeaseWire {
 public:
  // `interrupt`: a descriptor that ends a call when it becomes readable; -1: none.
  explicit LeaseWire(std::string address, int interrupt = -1)
      : address_(std::move(address)), interrupt_(interrupt) {}

  const std::string& address() const { return address_; }

  Result<LeaseAnswer> reserve(const json::Value& body);
  // Answers at once, or when the version is beyond `version` or after `wait` (at most 60 s).
  Result<LeaseAnswer> read(std::string_view id, Duration wait, std::int64_t version);
  Result<LeaseAnswer> confirm(std::string_view id, const json::Value& proof);
  Result<LeaseAnswer> renew(std::string_view id);
  // `if_gone`: it ends when no process of it is left.
  Result<LeaseAnswer> release(std::string_view id, bool if_gone, std::string_view reason);

  // By the key of the reservation, for one whose answer never came.
  Result<LeaseAnswer> release_key(std::string_view key, std::string_view reason);

  // The last error came from the descriptor.
  bool interrupted() const { return client_.has_value() && client_->interrupted(); }

 private:
  Result<LeaseAnswer> call(const net::Call& call);

  std::string address_;
  int interrupt_;
  std::optional<net::Client> client_;
};

}  // namespace berth::cli
