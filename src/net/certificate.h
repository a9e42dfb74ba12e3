// Certificates that Berth makes for itself: an authority, and a server's certificate signed by it.
//
//   TRY(CertifiedKey authority, make_authority({.name = "berth-webhook", .valid = week}));
//   TRY(CertifiedKey server, make_certificate(authority, {.names = {"berth.svc"}, .valid = week}));
//
// Keys are of the curve P-256; they are in the answer alone, nothing is written anywhere.
// Thread-safety: functions of their arguments and of the machine's randomness.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace berth::net {

struct CertifiedKey {
  std::string certificate = {};  // PEM
  std::string key = {};          // PEM, secret
};

// Seconds since 1970, both inclusive.
struct Validity {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

struct AuthorityWords {
  std::string name = {};
  Validity valid = {};
};

struct CertificateWords {
  std::vector<std::string> names = {};  // of DNS, or IP addresses; the first is the subject
  Validity valid = {};
};

// Errors: invalid_argument (a name or time that a certificate cannot hold), internal.
Result<CertifiedKey> make_authority(const AuthorityWords& words);
Result<CertifiedKey> make_certificate(const CertifiedKey& authority, const CertificateWords& words);

struct CertificateFacts {
  std::string pem = {};          // of this certificate alone
  std::string fingerprint = {};  // SHA-256 of it, hexadecimal
  std::string subject = {};      // its common name
  Validity valid = {};
};

// The certificates of a PEM text, in order; what else stands between them is skipped. Errors:
// invalid_argument when one of them cannot be read.
Result<std::vector<CertificateFacts>> read_certificates(const std::string& pem);

}  // namespace berth::net
