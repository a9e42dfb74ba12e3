#include "kube/client/certificate.h"

#include <ctime>
#include <memory>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/error.h"

namespace berth::kube {

Result<std::int64_t> certificate_end_us(std::string_view pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> source(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(source.get(), nullptr, nullptr, nullptr), &X509_free);
  std::tm parts{};
  if (certificate == nullptr ||
      ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &parts) != 1) {
    return invalid_argument("it is no certificate in PEM form");
  }
  return static_cast<std::int64_t>(timegm(&parts)) * 1'000'000;
}

}  // namespace berth::kube
