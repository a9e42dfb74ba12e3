#include "kube/client/exchange.h"

#include <algorithm>
#include <cstring>
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <sys/socket.h>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"

namespace berth::kube {

namespace {

constexpr std::size_t kMostBody = std::size_t{512} << 20U;
constexpr std::size_t kMostRefusal = std::size_t{64} << 10U;  // of a stream's answer other than 2xx
constexpr std::size_t kKeptBody = std::size_t{64} << 10U;

void start_library() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  ASSERT(code == CURLE_OK, static_cast<int>(code));
}

const char* content_type(Content content) {
  switch (content) {
    case Content::json: return "Content-Type: application/json";
    case Content::strategic_merge_patch:
      return "Content-Type: application/strategic-merge-patch+json";
    case Content::merge_patch: return "Content-Type: application/merge-patch+json";
    case Content::json_patch: return "Content-Type: application/json-patch+json";
  }
  return "";
}

void set_blob(CURL* easy, CURLoption option, const std::string& pem) {
  if (pem.empty()) {
    curl_easy_setopt(easy, option, nullptr);
    return;
  }
  // The outfit keeps the bytes for as long as the handle wears it.
  curl_blob blob{.data = const_cast<char*>(pem.data()),  // NOLINT: never written to
                 .len = pem.size(),
                 .flags = CURL_BLOB_NOCOPY};
  curl_easy_setopt(easy, option, &blob);
}

// The host and port of a URL, and where its path begins.
std::pair<std::string_view, std::size_t> host_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t end = std::min(url.find('/', begin), url.size());
  return {url.substr(begin, end - begin), end};
}

std::string_view port_of(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const std::size_t bracket = host.rfind(']');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket)) {
    return "443";
  }
  return host.substr(colon + 1);
}

}  // namespace

// What libcurl calls.
struct ExchangeHooks {
  static std::size_t on_bytes(char* bytes, std::size_t /*one*/, std::size_t size, void* self) {
    auto& exchange = *static_cast<Exchange*>(self);
    *exchange.heard_ += size;
    if (!exchange.started_) {
      long status = 0;
      curl_easy_getinfo(exchange.easy_, CURLINFO_RESPONSE_CODE, &status);
      exchange.good_ = status >= 200 && status < 300;
      exchange.started_ = true;
    }
    if (exchange.muted_) return size;
    const bool streamed = exchange.order_.sink != nullptr;
    if (streamed && exchange.good_) {
      exchange.order_.sink->on_bytes(std::string_view(bytes, size));
      return size;
    }
    if (streamed && exchange.body_.size() + size > kMostRefusal) return size;
    if (exchange.body_.size() + size > kMostBody) {
      exchange.too_big_ = true;
      return 0;
    }
    exchange.body_.append(bytes, size);
    return size;
  }

  static std::size_t on_wanted(char* room, std::size_t /*one*/, std::size_t size, void* self) {
    auto& exchange = *static_cast<Exchange*>(self);
    const std::function<bool()>* may_start = exchange.order_.may_start;
    if (exchange.read_ == 0 && may_start != nullptr && *may_start && !(*may_start)()) {
      exchange.held_back_ = true;
      return CURL_READFUNC_ABORT;
    }
    const std::size_t count = std::min(size, exchange.order_.body.size() - exchange.read_);
    std::memcpy(room, exchange.order_.body.data() + exchange.read_, count);
    exchange.read_ += count;
    return count;
  }

  // libcurl wants to send again what it has sent on a connection that broke. It must not: the
  // first one may have arrived.
  static int on_rewind(void* self, curl_off_t offset, int /*origin*/) {
    auto& exchange = *static_cast<Exchange*>(self);
    if (offset == 0 && exchange.read_ == 0) return CURL_SEEKFUNC_OK;
    return CURL_SEEKFUNC_FAIL;
  }

  static int on_socket(void* /*self*/, curl_socket_t fd, curlsocktype /*purpose*/) {
    // Bytes that nobody has acknowledged for so long end the connection.
    const unsigned int patience_ms = 45'000;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
    return CURL_SOCKOPT_OK;
  }
};

Target make_target(const Access& access, std::string user_agent, Duration connect_timeout) {
  Target target{.url = access.server,
                .shown = access.server,
                .proxy_url = access.proxy_url,
                .origin = access.origin,
                .user_agent = std::move(user_agent),
                .insecure = access.insecure,
                .connect_timeout = connect_timeout};
  const auto [host, path] = host_of(access.server);
  if (!access.tls_server_name.empty() && access.server.starts_with("https://")) {
    // The name that the certificate is for stands in the URL, the machine in CONNECT_TO.
    const std::string_view port = port_of(host);
    target.url =
        fmt::format("https://{}:{}{}", access.tls_server_name, port, access.server.substr(path));
    target.host_header = host;
    const bool has_port = host.ends_with(fmt::format(":{}", port));
    target.connect_to = fmt::format("::{}{}", host, has_port ? "" : fmt::format(":{}", port));
  }
  return target;
}

Outfit::Outfit(const Target& target, std::shared_ptr<const CredentialSet> credentials)
    : target_(target), credentials_(std::move(credentials)) {
  start_library();
  if (!target.connect_to.empty()) {
    connect_to_ = curl_slist_append(nullptr, target.connect_to.c_str());
  }
}

Outfit::~Outfit() {
  curl_slist_free_all(static_cast<curl_slist*>(connect_to_));
  for (void* list : usual_)
    curl_slist_free_all(static_cast<curl_slist*>(list));
  for (const auto& [accept, list] : unusual_)
    curl_slist_free_all(static_cast<curl_slist*>(list));
}

void* Outfit::headers(const Content* content, const std::string& accept) const {
  if (!accept.empty()) {
    const std::string key =
        fmt::format("{} {}", content == nullptr ? "" : content_type(*content), accept);
    void*& list = unusual_[key];
    if (list == nullptr) list = make_list(content, accept);
    return list;
  }
  void*& list = usual_[content == nullptr ? 0 : static_cast<std::size_t>(*content) + 1];
  if (list == nullptr) list = make_list(content, "application/json");
  return list;
}

void* Outfit::make_list(const Content* content, std::string_view accept) const {
  curl_slist* list = nullptr;
  const auto add = [&](const std::string& line) {
    curl_slist* longer = curl_slist_append(list, line.c_str());
    ASSERT(longer != nullptr);
    list = longer;
  };
  add(fmt::format("Accept: {}", accept));
  // Compressed answers would cost the server and us more than they save on a near network.
  add("Accept-Encoding: identity");
  add(fmt::format("User-Agent: {}", target_.user_agent));
  if (!target_.host_header.empty()) add(fmt::format("Host: {}", target_.host_header));
  if (content != nullptr) {
    add(content_type(*content));
    add("Expect:");
  }
  for (const std::string& line : credentials_->headers)
    add(line);
  return list;
}

Exchange::Exchange() {
  start_library();
  easy_ = curl_easy_init();
  ASSERT(easy_ != nullptr);
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  curl_easy_setopt(easy_, CURLOPT_PIPEWAIT, 1L);
  curl_easy_setopt(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy_, CURLOPT_TCP_KEEPIDLE, 30L);
  curl_easy_setopt(easy_, CURLOPT_TCP_KEEPINTVL, 5L);
  curl_easy_setopt(easy_, CURLOPT_SOCKOPTFUNCTION, &ExchangeHooks::on_socket);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_.data());
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &ExchangeHooks::on_bytes);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy_, CURLOPT_READFUNCTION, &ExchangeHooks::on_wanted);
  curl_easy_setopt(easy_, CURLOPT_READDATA, this);
  curl_easy_setopt(easy_, CURLOPT_SEEKFUNCTION, &ExchangeHooks::on_rewind);
  curl_easy_setopt(easy_, CURLOPT_SEEKDATA, this);
}

Exchange::~Exchange() { curl_easy_cleanup(easy_); }

void Exchange::dress() {
  const Target& target = outfit_->target();
  const CredentialSet& credentials = *outfit_->credentials();
  curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYPEER, target.insecure ? 0L : 1L);
  curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYHOST, target.insecure ? 0L : 2L);
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(target.connect_timeout.count()));
  curl_easy_setopt(easy_, CURLOPT_PROXY,
                   target.proxy_url.empty() ? nullptr : target.proxy_url.c_str());
  curl_easy_setopt(easy_, CURLOPT_CONNECT_TO, outfit_->connect_to());
  set_blob(easy_, CURLOPT_CAINFO_BLOB, credentials.ca_pem);
  if (!credentials.ca_pem.empty()) {  // and no others
    curl_easy_setopt(easy_, CURLOPT_CAINFO, nullptr);
    curl_easy_setopt(easy_, CURLOPT_CAPATH, nullptr);
  }
  set_blob(easy_, CURLOPT_SSLCERT_BLOB, credentials.certificate_pem);
  set_blob(easy_, CURLOPT_SSLKEY_BLOB, credentials.key_pem);
}

void Exchange::prepare(const Order& order, std::shared_ptr<const Outfit> outfit,
                       std::uint64_t owner, std::uint64_t& heard) {
  if (outfit_ != outfit) {
    outfit_ = std::move(outfit);
    dress();
  }
  order_ = order;
  owner_ = owner;
  heard_ = &heard;
  body_.clear();
  read_ = 0;
  started_ = good_ = muted_ = too_big_ = held_back_ = false;
  error_[0] = '\0';
  url_.assign(outfit_->target().url).append(order.path);
  curl_easy_setopt(easy_, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, static_cast<long>(order.timeout.count()));
  const bool has_body = !order.body.empty();
  const bool plain_get = order.method == Method::get && !has_body;
  static constexpr std::array<const char*, 5> kNames = {"GET", "POST", "PUT", "PATCH", "DELETE"};
  if (plain_get) {
    curl_easy_setopt(easy_, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, nullptr);
  } else {
    curl_easy_setopt(easy_, CURLOPT_POST, 1L);
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(order.body.size()));
    curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, kNames[static_cast<std::size_t>(order.method)]);
  }
  static const std::string kUsual;
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER,
                   outfit_->headers(plain_get ? nullptr : &order_.content,
                                    order.accept == nullptr ? kUsual : *order.accept));
}

// Whether a byte of the request may have reached a connection that stood.
bool Exchange::left_us() const {
  if (held_back_) return false;  // its head alone does nothing
  long sent = 0;
  curl_easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &sent);
  return sent > 0 || read_ > 0;
}

bool Exchange::timed_out(int curl_result) const { return curl_result == CURLE_OPERATION_TIMEDOUT; }

Answer Exchange::answer(int curl_result) {
  long status = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  Answer answer;
  body_.reserve(body_.size() + kPadding);
  answer.body = body_;
  // A stream that broke off after a good start has told what it had to tell, but not its end.
  if (curl_result == CURLE_OK && status > 0) {
    answer.outcome = Outcome::answered;
    answer.status = static_cast<int>(status);
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > 0) answer.retry_after = Duration(std::min<std::int64_t>(seconds, 3'600) * 1'000);
    return answer;
  }
  answer.outcome = left_us() ? Outcome::unknown : Outcome::not_sent;
  problem_ = sentence(curl_result);
  answer.problem = problem_;
  return answer;
}

Answer Exchange::broken_off(std::string_view why) {
  problem_ = why;
  return Answer{.outcome = left_us() ? Outcome::unknown : Outcome::not_sent, .problem = problem_};
}

std::string Exchange::sentence(int curl_result) const {
  const Target& target = outfit_->target();
  const auto code = static_cast<CURLcode>(curl_result);
  const std::string_view detail =
      error_[0] != '\0' ? std::string_view(error_.data()) : curl_easy_strerror(code);
  if (held_back_) return std::string(kNotOurs);
  if (too_big_) {
    return fmt::format("an answer of {} is larger than {} MiB", target.shown, kMostBody >> 20U);
  }
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return fmt::format("{} cannot be reached: {}; check the address in {} and the network",
                         target.shown, detail, target.origin);
    case CURLE_PEER_FAILED_VERIFICATION:
      return fmt::format("{} is not trusted: {}; check the certificate authority in {}",
                         target.shown, detail, target.origin);
    case CURLE_SSL_CERTPROBLEM:
      return fmt::format("the client certificate or key of {} cannot be used: {}", target.origin,
                         detail);
    case CURLE_OPERATION_TIMEDOUT:
      return fmt::format("{} gave no answer in time: {}", target.shown, detail);
    default: return fmt::format("the connection to {} was lost: {}", target.shown, detail);
  }
}

std::uint64_t Exchange::connections() const {
  long count = 0;
  curl_easy_getinfo(easy_, CURLINFO_NUM_CONNECTS, &count);
  return static_cast<std::uint64_t>(std::max(count, 0L));
}

Exchange& Exchange::of(void* easy) {
  char* self = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &self);
  return *reinterpret_cast<Exchange*>(self);
}

void Exchange::rest() {
  order_ = {};
  if (body_.capacity() > kKeptBody) body_ = {};
}

}  // namespace berth::kube
