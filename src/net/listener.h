// A socket that clients connect to: made by us or inherited, Unix or TCP.
//
// Thread-safety: made anywhere, used on the I/O thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/result.h"
#include "net/loop.h"
#include "net/server.h"
#include "net/target.h"

namespace berth::net {

class Listener : public Watcher {
 public:
  // Called with each new connection; the descriptor does not block and is the callee's.
  using Accepted = std::function<void(const Listener&, int fd)>;
  // Called when a connection had to be dropped because the process has no descriptor left.
  using Dropped = std::function<void()>;

  // The Unix socket of `address`. A file left behind by a server that is gone is replaced; one on
  // which somebody listens is an error that names its process.
  static Result<std::unique_ptr<Listener>> open_unix(const Address& address, mode_t mode);
  // Every TCP address that host and port stand for.
  static Result<std::vector<std::unique_ptr<Listener>>> open_tcp(const Address& address);
  static Result<std::unique_ptr<Listener>> adopt(const InheritedSocket& socket);

  ~Listener() override;  // closes, and removes the socket file if it is still the one made here
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Takes clients from now on. The loop must outlive the listener.
  Result<void> start(Loop& loop, Accepted accepted, Dropped dropped);
  void stop();
  void on_events(std::uint32_t events) override;
  // To be called now and then: listens again after a pause that a lack of descriptors forced.
  void tick();

  const Address& address() const { return address_; }

  bool is_unix() const { return address_.scheme == Address::Scheme::unix_socket; }

  bool is_loopback() const { return loopback_; }

  bool is_paused() const { return paused_; }

 private:
  Listener(int fd, Address address) : fd_(fd), address_(std::move(address)) {}
  bool accept_one();
  void out_of_descriptors();

  int fd_;
  Address address_;
  bool loopback_ = false;
  bool owns_file_ = false;
  dev_t device_ = 0;  // of the socket file
  ino_t inode_ = 0;
  int spare_fd_ = -1;  // given up for a moment to take and close a client when none is left
  bool paused_ = false;
  Loop* loop_ = nullptr;
  Accepted accepted_;
  Dropped dropped_;
};

}  // namespace berth::net
