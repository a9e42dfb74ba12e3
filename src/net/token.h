// Bearer tokens: who may call over TCP.
//
// The file has one token a line, `#` begins a comment:
//
//   airflow user  sha256:5e88489...
//   ops     admin sha256:0b14d50...
//
// A token is "berth_" and 256 random bits; the file holds its SHA-256 only, so whoever reads it
// cannot call. It takes no salt and no slow hash: these protect what can be guessed, and 256 bits
// cannot. That is why tokens come from make_token() and are never chosen by people. The same name
// may stand on two lines while a token is replaced. Thread-safety: values.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/message.h"

namespace berth::net {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(std::string_view text);

class TokenSet {
 public:
  // Errors (invalid_argument) name `file`, the line and what is wrong with it.
  static Result<TokenSet> parse(std::string_view text, std::string_view file);
  // Errors: not_found, unavailable, those of parse(), and conflict if others than the file's owner
  // may write to it.
  static Result<TokenSet> load(const std::string& file);

  // Who bears `token`; null if nobody. Takes the same time whichever token it is or is not.
  std::shared_ptr<const Caller> find(std::string_view token) const;
  // Whether `caller`, which find() gave, still stands.
  bool holds(const Caller& caller) const;
  // Tokens that are in `older` too with name and role keep the Caller that older.find() gave.
  void take_over(const TokenSet& older);

  std::size_t size() const { return entries_.size(); }
  struct Row {
    std::string name;
    bool admin = false;
    std::string hash;  // its first 12 hexadecimal digits, to tell two of one name apart
  };
  // In the order of the file.
  std::vector<Row> rows() const;

 private:
  struct Entry {
    Sha256 hash;
    std::shared_ptr<const Caller> caller;
  };

  Result<void> add_line(std::string_view line);

  std::vector<Entry> entries_;
};

struct NewToken {
  std::string secret;  // for the caller; it cannot be had again
  std::string line;    // for the file, with its line end
};

// Errors: invalid_argument (the name), unavailable (the system gives no random bytes).
Result<NewToken> make_token(std::string_view name, bool admin);

// "Bearer abc" -> "abc"; empty if it is no such header.
std::string_view bearer_token(std::string_view authorization);

}  // namespace berth::net
