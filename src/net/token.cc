#include "net/token.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <optional>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "net/socket.h"

namespace berth::net {

namespace {

constexpr std::size_t kMostBytes = std::size_t{4} * 1024 * 1024;
constexpr std::string_view kHashPrefix = "sha256:";
constexpr std::string_view kSecretPrefix = "berth_";

bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == '@';
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, allowed);
}

std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kBlank = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlank));
  line.remove_prefix(word.size());
  return word;
}

std::optional<Sha256> parse_hash(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  Sha256 hash{};
  if (!text.starts_with(kHashPrefix)) return std::nullopt;
  text.remove_prefix(kHashPrefix.size());
  if (text.size() != 2 * hash.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    std::uint8_t& byte = hash[i / 2];
    byte = static_cast<std::uint8_t>((byte << 4U) | digit);
  }
  return hash;
}

std::string base64url(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  unsigned bits = 0;
  unsigned count = 0;
  for (const char c : bytes) {
    bits = (bits << 8U) | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) {
      text += kDigits[(bits >> (count - 6)) & 63U];
    }
  }
  if (count > 0) text += kDigits[(bits << (6 - count)) & 63U];
  return text;
}

Error unreadable(const std::string& file, int code) {
  const ErrorCode kind = code == ENOENT ? ErrorCode::not_found : ErrorCode::unavailable;
  return {kind, fmt::format("the token file {} cannot be read: {}", printable(file),
                            std::strerror(code))};
}

Result<std::string> read_file(const std::string& file) {
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!fd.is_open() || ::fstat(fd.get(), &status) != 0) return unreadable(file, errno);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error{ErrorCode::conflict,
                 fmt::format("the token file {} may be written to by others than its owner, who "
                             "could make themselves admins; chmod go-w it",
                             printable(file))};
  }
  std::string text(kMostBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(file, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kMostBytes) return unreadable(file, EFBIG);
  text.resize(size);
  return text;
}

}  // namespace

Sha256 sha256(std::string_view text) {
  Sha256 hash{};
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return hash;
}

std::vector<TokenSet::Row> TokenSet::rows() const {
  std::vector<Row> rows;
  for (const Entry& entry : entries_) {
    Row row{.name = entry.caller->name, .admin = entry.caller->admin, .hash = {}};
    for (std::size_t i = 0; i < 6; ++i) {
      row.hash += fmt::format("{:02x}", entry.hash[i]);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<void> TokenSet::add_line(std::string_view line) {
  std::string_view rest = line;
  const std::string_view name = next_word(rest);
  const std::string_view role = next_word(rest);
  const std::string_view hash_text = next_word(rest);
  const std::string_view more = next_word(rest);
  if (!is_name(name)) {
    return invalid_argument(
        fmt::format("{} is no name of a token: 1 to 64 of letters, digits, "
                    "'.', '_', '-', '@'",
                    printable(shortened(name, 80))));
  }
  if (role != "user" && role != "admin") {
    return invalid_argument(fmt::format("the role of {} is \"user\" or \"admin\", not \"{}\"", name,
                                        printable(shortened(role, 80))));
  }
  const std::optional<Sha256> hash = parse_hash(hash_text);
  if (!hash || !more.empty()) {
    return invalid_argument(
        fmt::format("the line of {} ends in sha256: and 64 hexadecimal digits in lower case, and "
                    "nothing else; the token itself does not stand in this file",
                    name));
  }
  for (const Entry& entry : entries_) {
    if (entry.hash == *hash) {
      return invalid_argument(
          fmt::format("{} and {} have the same token", entry.caller->name, name));
    }
    if (entry.caller->name == name && entry.caller->admin != (role == "admin")) {
      return invalid_argument(fmt::format("{} is user on one line and admin on another", name));
    }
  }
  Caller caller{.name = std::string(name), .admin = role == "admin"};
  entries_.push_back({*hash, std::make_shared<const Caller>(std::move(caller))});
  return success();
}

Result<TokenSet> TokenSet::parse(std::string_view text, std::string_view file) {
  TokenSet set;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (Result<void> added = set.add_line(line); !added.ok()) {
      return invalid_argument(
          fmt::format("{}:{}: {}", printable(file), number, added.error().message()));
    }
  }
  return set;
}

Result<TokenSet> TokenSet::load(const std::string& file) {
  TRY(const std::string text, read_file(file));
  return parse(text, file);
}

std::shared_ptr<const Caller> TokenSet::find(std::string_view token) const {
  const Sha256 hash = sha256(token);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0) found = &entry;
  }
  return found == nullptr ? nullptr : found->caller;
}

bool TokenSet::holds(const Caller& caller) const {
  return std::ranges::any_of(entries_,
                             [&](const Entry& entry) { return entry.caller.get() == &caller; });
}

void TokenSet::take_over(const TokenSet& older) {
  for (Entry& entry : entries_) {
    const auto same = std::ranges::find(older.entries_, entry.hash, &Entry::hash);
    if (same == older.entries_.end()) continue;
    const bool unchanged =
        same->caller->name == entry.caller->name && same->caller->admin == entry.caller->admin;
    if (unchanged) entry.caller = same->caller;
  }
}

Result<NewToken> make_token(std::string_view name, bool admin) {
  if (!is_name(name)) {
    return invalid_argument(
        fmt::format("{} is no name for a token: 1 to 64 of letters, digits, '.', '_', '-', '@'",
                    printable(shortened(name, 80))));
  }
  std::string random(32, '\0');
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return Error{ErrorCode::unavailable,
                 fmt::format("the system gives no random bytes: {}", std::strerror(errno))};
  }
  NewToken token{.secret = std::string(kSecretPrefix) + base64url(random), .line = ""};
  token.line = fmt::format("{} {} {}", name, admin ? "admin" : "user", kHashPrefix);
  for (const std::uint8_t byte : sha256(token.secret)) {
    token.line += fmt::format("{:02x}", byte);
  }
  token.line += '\n';
  return token;
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!same_header(authorization.substr(0, kScheme.size()), kScheme)) return {};
  std::string_view token = authorization.substr(kScheme.size());
  token.remove_prefix(std::min(token.find_first_not_of(' '), token.size()));
  return token.contains(' ') ? std::string_view() : token;
}

}  // namespace berth::net
