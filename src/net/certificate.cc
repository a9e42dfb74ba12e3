#include "net/certificate.h"

#include <array>
#include <ctime>
#include <memory>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string_view>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/sha256.h"

namespace berth::net {

namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(ASN1_OCTET_STRING* text) const { ASN1_OCTET_STRING_free(text); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
  void operator()(GENERAL_NAME* name) const { GENERAL_NAME_free(name); }
};
template <typename T>
using Held = std::unique_ptr<T, Free>;

Error refused(std::string_view what) {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  Error error(ErrorCode::internal, fmt::format("a certificate cannot be made: {} ({})", what,
                                               reason == nullptr ? "unknown reason" : reason));
  ERR_clear_error();
  return error;
}

Held<BIO> reader(const std::string& text) {
  return Held<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string pem_of(X509* certificate) {
  const Held<BIO> bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return text_of(bio.get());
}

std::string pem_of(EVP_PKEY* key) {
  const Held<BIO> bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(bio.get());
}

bool set_time(ASN1_TIME* time, std::int64_t unix_s) {
  return ASN1_TIME_set(time, static_cast<std::time_t>(unix_s)) != nullptr;
}

std::int64_t unix_time(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

bool set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return false;
  }
  bytes[0] &= 0x7fU;  // positive
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(
      BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr), BN_free);
  return BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_common_name(X509_NAME* name, const std::string& text) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.c_str()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool add_extension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Held<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Name by name through the ASN.1 types: a configuration string would give meaning to commas.
bool add_names(X509* certificate, const std::vector<std::string>& names) {
  const Held<GENERAL_NAMES> list(GENERAL_NAMES_new());
  for (const std::string& text : names) {
    Held<GENERAL_NAME> name(GENERAL_NAME_new());
    if (Held<ASN1_OCTET_STRING> ip(a2i_IPADDRESS(text.c_str())); ip != nullptr) {
      GENERAL_NAME_set0_value(name.get(), GEN_IPADD, ip.release());
    } else {
      ERR_clear_error();
      ASN1_IA5STRING* dns = ASN1_IA5STRING_new();
      ASN1_STRING_set(dns, text.data(), static_cast<int>(text.size()));
      GENERAL_NAME_set0_value(name.get(), GEN_DNS, dns);
    }
    if (sk_GENERAL_NAME_push(list.get(), name.get()) == 0) {
      return false;
    }
    static_cast<void>(name.release());  // NOLINT(bugprone-unused-return-value): the list owns it
  }
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, list.get(), 0, 0) == 1;
}

// A certificate with a new key, still to be given its extensions and signed.
struct Draft {
  Held<X509> certificate;
  Held<EVP_PKEY> key;
};

Result<Draft> start(const std::string& common_name, const Validity& valid) {
  if (common_name.empty() || common_name.size() > 64 || valid.to <= valid.from) {
    return invalid_argument(
        fmt::format("a certificate for \"{}\" cannot be made: a name of 1 to 64 characters and an "
                    "end after the begin are needed",
                    printable(common_name)));
  }
  ERR_clear_error();
  Draft draft{.certificate = Held<X509>(X509_new()), .key = Held<EVP_PKEY>(EVP_EC_gen("P-256"))};
  X509* certificate = draft.certificate.get();
  const bool made = draft.key != nullptr && certificate != nullptr &&
                    X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
                    set_time(X509_getm_notBefore(certificate), valid.from) &&
                    set_time(X509_getm_notAfter(certificate), valid.to) &&
                    X509_set_pubkey(certificate, draft.key.get()) == 1 &&
                    set_common_name(X509_get_subject_name(certificate), common_name);
  if (!made) {
    return refused("its beginning");
  }
  return draft;
}

Result<CertifiedKey> sign(const Draft& draft, EVP_PKEY* by) {
  if (X509_sign(draft.certificate.get(), by, EVP_sha256()) == 0) {
    return refused("its signature");
  }
  return CertifiedKey{.certificate = pem_of(draft.certificate.get()),
                      .key = pem_of(draft.key.get())};
}

CertificateFacts facts_of(X509* certificate) {
  CertificateFacts facts{.pem = pem_of(certificate)};
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate, &der);
  if (size > 0) {
    facts.fingerprint =
        sha256_hex({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
    OPENSSL_free(der);
  }
  std::array<char, 256> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(),
                            static_cast<int>(name.size()));
  facts.subject = name.data();
  facts.valid = {.from = unix_time(X509_get0_notBefore(certificate)),
                 .to = unix_time(X509_get0_notAfter(certificate))};
  return facts;
}

}  // namespace

Result<CertifiedKey> make_authority(const AuthorityWords& words) {
  TRY(const Draft draft, start(words.name, words.valid));
  X509* certificate = draft.certificate.get();
  const bool made =
      X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1 &&
      add_extension(certificate, certificate, NID_basic_constraints,
                    "critical,CA:TRUE,pathlen:0") &&
      add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") &&
      add_extension(certificate, certificate, NID_subject_key_identifier, "hash");
  if (!made) {
    return refused("its extensions");
  }
  return sign(draft, draft.key.get());
}

Result<CertifiedKey> make_certificate(const CertifiedKey& authority,
                                      const CertificateWords& words) {
  const Held<BIO> certificate_text = reader(authority.certificate);
  const Held<X509> issuer(PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr));
  const Held<BIO> key_text = reader(authority.key);
  const Held<EVP_PKEY> key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  if (issuer == nullptr || key == nullptr) {
    ERR_clear_error();
    return invalid_argument("the authority's certificate or key is no PEM text");
  }
  TRY(const Draft draft,
      start(words.names.empty() ? "" : words.names.front().substr(0, 64), words.valid));
  X509* certificate = draft.certificate.get();
  const bool made =
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer.get())) == 1 &&
      add_extension(certificate, issuer.get(), NID_basic_constraints, "critical,CA:FALSE") &&
      add_extension(certificate, issuer.get(), NID_key_usage, "critical,digitalSignature") &&
      add_extension(certificate, issuer.get(), NID_ext_key_usage, "serverAuth") &&
      add_extension(certificate, issuer.get(), NID_authority_key_identifier, "keyid") &&
      add_names(certificate, words.names);
  if (!made) {
    return refused("its extensions");
  }
  return sign(draft, key.get());
}

Result<std::vector<CertificateFacts>> read_certificates(const std::string& pem) {
  std::vector<CertificateFacts> all;
  const Held<BIO> bio = reader(pem);
  ERR_clear_error();
  while (true) {
    const Held<X509> certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate != nullptr) {
      all.push_back(facts_of(certificate.get()));
      continue;
    }
    const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    if (!at_end) {
      return invalid_argument(fmt::format(
          "certificate {} of the text cannot be read; it is no PEM, or it is cut", all.size() + 1));
    }
    return all;
  }
}

}  // namespace berth::net
