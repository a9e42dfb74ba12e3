// TLS over a Transport, by OpenSSL. Nothing of it is loaded or initialised until one of these is
// made.
//
// Thread-safety: TlsServer and TlsClient may be shared; a transport belongs to one thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/transport.h"

namespace berth::net {

// A server's certificate and key.
class TlsServer {
 public:
  // PEM files; the certificate's own first, then its chain. Errors name the file and the reason.
  static Result<std::shared_ptr<const TlsServer>> load(const std::string& certificate_file,
                                                       const std::string& key_file);
  // The same from PEM texts.
  static Result<std::shared_ptr<const TlsServer>> make(const std::string& certificate,
                                                       const std::string& key);
  virtual ~TlsServer() = default;
  virtual std::unique_ptr<Transport> accept(int fd) const = 0;
};

// Whom a client trusts.
class TlsClient {
 public:
  // `ca_file`: PEM, instead of the system's authorities if it is not empty.
  static Result<std::shared_ptr<const TlsClient>> load(const std::string& ca_file);
  virtual ~TlsClient() = default;
  // `host` is what the certificate must be for: a name or an IP address. The handshake fails if it
  // is not.
  virtual std::unique_ptr<Transport> connect(int fd, const std::string& host) const = 0;
};

}  // namespace berth::net
