// Sender: deeds of the harbour as calls of the API server, and what became of them.
//
// Bindings, conditions and events go through the client's queue of writes in their order of rank;
// readings and claims go at once. With `dry` nothing is sent: a binding counts as done, so that
// every later decision is made as if it were. Thread-safety: the client's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "json/dom.h"
#include "kube/client/client.h"
#include "kube/client/write_queue.h"
#include "kube/scheduler/harbour.h"
#include "kube/scheduler/writes.h"

namespace berth::kube {

class Sender {
 public:
  using Told = std::function<void(std::uint64_t number, Said said)>;

  // `may_write`: the fence. `instance`: who reports events.
  Sender(Client& client, std::function<bool()> may_write, std::string instance, bool dry,
         Told told);

  // How much of each kind it takes now: enough to keep the connection busy, and no more, so that
  // what waits can still be withdrawn.
  Harbour::Room room() const;
  void send(Deed deed);
  WriteFigures figures() const { return writes_.figures(); }

 private:
  void send(std::uint64_t number, Bind bind);
  void send(std::uint64_t number, ReadPod read);
  void send(std::uint64_t number, PatchStatus patch);
  void send(std::uint64_t number, Say say);
  void send(std::uint64_t number, PatchClaim patch);
  Answered counted(std::uint64_t number, std::size_t& count);

  Client& client_;
  std::function<bool()> may_write_;
  WriteQueue writes_;
  std::string instance_;
  bool dry_;
  Told told_;
  json::DomParser parser_;
  std::size_t bindings_ = 0;  // on their way
  std::size_t conditions_ = 0;
  std::size_t events_ = 0;
};

}  // namespace berth::kube
