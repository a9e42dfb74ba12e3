// Caches: what lists and watches bring, told to the harbour. It keeps no object itself.
//
// Pods, nodes and namespaces are needed before anything is decided. Of storage it is enough to know
// it before a pod with claims is: what may not be read there is named, and such pods wait with it.
// Thread-safety: the client's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "kube/scheduler/harbour.h"

namespace berth::kube {

class Caches {
 public:
  using Log = std::function<void(std::string_view level, std::string_view text)>;

  Caches(Client& client, Harbour& harbour, std::function<Time()> now, Log log);
  ~Caches();
  Caches(const Caches&) = delete;
  Caches& operator=(const Caches&) = delete;

  void start();
  // What is needed is read anew, as it is now; ready() is false until it was told.
  void read_again();
  bool ready() const;
  // Whether what is needed is heard of right now. While it is not, nothing new is sent: what was
  // decided may rest on what is no more.
  bool live() const;
  // What is needed and not there yet, and what may not be read: "pods: 403 Forbidden: …".
  std::vector<std::string> troubles() const;
  // Whether something came since the last call.
  bool take_news();

  struct Row {
    std::string name;
    ReflectorFigures figures;
  };

  std::vector<Row> figures() const;

 private:
  class Sink;
  struct Kind;

  static std::span<const Kind> kinds();
  void storage_told();

  Client& client_;
  Harbour& harbour_;
  std::function<Time()> now_;
  Log log_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  bool news_ = false;
};

}  // namespace berth::kube
