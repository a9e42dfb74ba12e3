// A connected descriptor that never blocks, plain or under TLS. Server and client use the same.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace berth::net {

struct IoResult {
  enum class Status : std::uint8_t {
    done,        // `bytes` > 0 were moved
    want_read,   // again when the descriptor is readable
    want_write,  // again when it is writable
    closed,      // the peer has finished sending
    failed,      // broken; `why()` says how
  };
  Status status = Status::failed;
  std::size_t bytes = 0;
};

class Transport {
 public:
  // Takes the descriptor over.
  explicit Transport(int fd) : fd_(fd) {}
  virtual ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual int fd() const { return fd_; }

  // Gives the descriptor away.
  int release() { return std::exchange(fd_, -1); }

  // What must be said before the first byte; done at once without TLS.
  virtual IoResult handshake();
  virtual IoResult read(std::span<char> into);
  virtual IoResult write(std::string_view from);
  // Nothing more will be written.
  virtual void finish_writing();
  virtual std::string why() const;

 protected:
  int error_ = 0;  // errno of the last failure

 private:
  int fd_;
};

}  // namespace berth::net
