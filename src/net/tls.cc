#include "net/tls.h"

#include <algorithm>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/printable.h"
#include "net/message.h"

namespace berth::net {

namespace {

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Context = std::unique_ptr<SSL_CTX, Free>;
using Bio = std::unique_ptr<BIO, Free>;

// Reads from a text, which must outlive it.
Bio bio_of(const std::string& text) {
  Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  ASSERT(bio != nullptr, "out of memory");
  return bio;
}

std::string openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  if (reason == nullptr && ERR_SYSTEM_ERROR(code)) reason = "the file cannot be read";
  std::string text = reason == nullptr ? "unknown reason" : reason;
  ERR_clear_error();
  return text;
}

// OpenSSL's own socket BIO writes with write(), which can raise SIGPIPE; this one goes through the
// plain Transport.
class PlainSide final : public Transport {
 public:
  using Transport::Transport;
};

int bio_read(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  auto* plain = static_cast<PlainSide*>(BIO_get_data(bio));
  const IoResult result = plain->read({into, static_cast<std::size_t>(std::max(size, 0))});
  if (result.status == IoResult::Status::done) return static_cast<int>(result.bytes);
  if (result.status == IoResult::Status::want_read) BIO_set_retry_read(bio);
  return result.status == IoResult::Status::closed ? 0 : -1;
}

int bio_write(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  auto* plain = static_cast<PlainSide*>(BIO_get_data(bio));
  const IoResult result = plain->write({from, static_cast<std::size_t>(std::max(size, 0))});
  if (result.status == IoResult::Status::done) return static_cast<int>(result.bytes);
  if (result.status == IoResult::Status::want_write) BIO_set_retry_write(bio);
  return -1;
}

long bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*data*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

// One for the process, never freed: transports of static life may still need it.
BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "berth transport");
    ASSERT(made != nullptr);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

class TlsTransport final : public Transport {
 public:
  TlsTransport(SSL_CTX* context, int fd) : Transport(-1), plain_(fd), ssl_(SSL_new(context)) {
    BIO* bio = BIO_new(bio_method());
    ASSERT(ssl_ != nullptr && bio != nullptr, "out of memory for a TLS connection");
    BIO_set_data(bio, &plain_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
  }

  SSL* ssl() const { return ssl_.get(); }

  int fd() const override { return plain_.fd(); }

  IoResult handshake() override {
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_.get());
    if (done == 1) return {.status = IoResult::Status::done};
    const IoResult result = failure(done);
    if (result.status == IoResult::Status::failed && spoke_plain_) answer_in_plain();
    return result;
  }

  IoResult read(std::span<char> into) override {
    ERR_clear_error();
    std::size_t bytes = 0;
    const int done = SSL_read_ex(ssl_.get(), into.data(), into.size(), &bytes);
    return done == 1 ? IoResult{IoResult::Status::done, bytes} : failure(done);
  }

  IoResult write(std::string_view from) override {
    ERR_clear_error();
    std::size_t bytes = 0;
    const int done = SSL_write_ex(ssl_.get(), from.data(), from.size(), &bytes);
    return done == 1 ? IoResult{IoResult::Status::done, bytes} : failure(done);
  }

  void finish_writing() override {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
    plain_.finish_writing();
  }

  std::string why() const override { return why_.empty() ? plain_.why() : why_; }

 private:
  IoResult failure(int done) {
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ: return {.status = IoResult::Status::want_read};
      case SSL_ERROR_WANT_WRITE: return {.status = IoResult::Status::want_write};
      case SSL_ERROR_ZERO_RETURN: return {.status = IoResult::Status::closed};
      default: break;
    }
    const unsigned long code = ERR_peek_last_error();
    // A peer that ends without a close_notify: HTTP/1.1 itself says where a message ends.
    const bool ended = ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (ended && SSL_is_init_finished(ssl_.get()) != 0) {
      ERR_clear_error();
      return {.status = IoResult::Status::closed};
    }
    spoke_plain_ = ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST;
    if (code != 0) {
      const long verified = SSL_get_verify_result(ssl_.get());
      why_ = verified == X509_V_OK ? openssl_reason()
                                   : fmt::format("its certificate is not trusted ({})",
                                                 X509_verify_cert_error_string(verified));
      ERR_clear_error();
    }
    return {.status = IoResult::Status::failed};
  }

  // Somebody said http:// to a port that speaks TLS. It reads plain text, so it is told in plain.
  void answer_in_plain() {
    const Response response = error_response({.status = 400,
                                              .code = "bad-request",
                                              .message = "this port speaks TLS and got plain HTTP",
                                              .hint = "use https:// instead of http://"});
    plain_.write(
        fmt::format("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
                    "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
                    response.body.size(), response.body));
    plain_.finish_writing();
  }

  PlainSide plain_;
  std::unique_ptr<SSL, Free> ssl_;
  std::string why_;
  bool spoke_plain_ = false;
};

Context make_context(const SSL_METHOD* method) {
  Context context(SSL_CTX_new(method));
  ASSERT(context != nullptr, "OpenSSL does not start");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Buffers are given back while a connection waits: thousands do.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

// A key under a pass phrase would have OpenSSL ask on the terminal.
int no_pass_phrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return 0; }

int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* in, unsigned in_size, void* /*data*/) {
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kHttp11, sizeof kHttp11 - 1, in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

class OpensslServer final : public TlsServer {
 public:
  explicit OpensslServer(Context context) : context_(std::move(context)) {}

  std::unique_ptr<Transport> accept(int fd) const override {
    auto transport = std::make_unique<TlsTransport>(context_.get(), fd);
    SSL_set_accept_state(transport->ssl());
    return transport;
  }

 private:
  Context context_;
};

class OpensslClient final : public TlsClient {
 public:
  explicit OpensslClient(Context context) : context_(std::move(context)) {}

  std::unique_ptr<Transport> connect(int fd, const std::string& host) const override {
    auto transport = std::make_unique<TlsTransport>(context_.get(), fd);
    SSL* ssl = transport->ssl();
    SSL_set_connect_state(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) != 1) {
      ERR_clear_error();
      // What the macro SSL_set_tlsext_host_name() does; it copies.
      SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
               const_cast<char*>(host.c_str()));
      SSL_set1_host(ssl, host.c_str());
    }
    return transport;
  }

 private:
  Context context_;
};

Context server_context() {
  Context context = make_context(TLS_server_method());
  SSL_CTX_set_options(context.get(), SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 1);
  SSL_CTX_set_default_passwd_cb(context.get(), no_pass_phrase);
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  ERR_clear_error();
  return context;
}

// The server's own certificate first, then its chain.
bool use_certificates(SSL_CTX* context, const std::string& pem) {
  const Bio bio = bio_of(pem);
  const std::unique_ptr<X509, Free> own(
      PEM_read_bio_X509(bio.get(), nullptr, no_pass_phrase, nullptr));
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) {
    return false;
  }
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, no_pass_phrase, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context, next) != 1) {
      X509_free(next);
      return false;
    }
  }
  ERR_clear_error();  // the end of the text
  return true;
}

}  // namespace

Result<std::shared_ptr<const TlsServer>> TlsServer::make(const std::string& certificate,
                                                         const std::string& key) {
  Context context = server_context();
  if (!use_certificates(context.get(), certificate)) {
    return invalid_argument(fmt::format("the certificate cannot be used: {}", openssl_reason()));
  }
  const Bio bio = bio_of(key);
  const std::unique_ptr<EVP_PKEY, Free> private_key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, no_pass_phrase, nullptr));
  if (private_key == nullptr || SSL_CTX_use_PrivateKey(context.get(), private_key.get()) != 1) {
    return invalid_argument(
        fmt::format("the key cannot be used with its certificate: {}", openssl_reason()));
  }
  return std::shared_ptr<const TlsServer>(std::make_shared<OpensslServer>(std::move(context)));
}

Result<std::shared_ptr<const TlsServer>> TlsServer::load(const std::string& certificate_file,
                                                         const std::string& key_file) {
  Context context = server_context();
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate_file.c_str()) != 1) {
    return invalid_argument(fmt::format("the certificate {} cannot be used: {}",
                                        printable(certificate_file), openssl_reason()));
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return invalid_argument(
        fmt::format("the key {} cannot be used with the certificate {}: {}; a key under a pass "
                    "phrase is not taken",
                    printable(key_file), printable(certificate_file), openssl_reason()));
  }
  return std::shared_ptr<const TlsServer>(std::make_shared<OpensslServer>(std::move(context)));
}

Result<std::shared_ptr<const TlsClient>> TlsClient::load(const std::string& ca_file) {
  Context context = make_context(TLS_client_method());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  ERR_clear_error();
  const int loaded = ca_file.empty() ? SSL_CTX_set_default_verify_paths(context.get())
                                     : SSL_CTX_load_verify_file(context.get(), ca_file.c_str());
  if (loaded != 1) {
    return invalid_argument(fmt::format("the file of authorities {} cannot be used: {}",
                                        printable(ca_file), openssl_reason()));
  }
  return std::shared_ptr<const TlsClient>(std::make_shared<OpensslClient>(std::move(context)));
}

}  // namespace berth::net
