// Reflector: the objects of one resource, kept up to date by list and watch (kubernetes-api.md 2).
//
//   Reflector pods(client, client.timers(), client.chance(),
//                  {.path = "/api/v1/pods", .selector = "fieldSelector=…"}, sink);
//   pods.start();
//
// It keeps of every object its key, uid and resourceVersion, no more: the sink keeps what it needs.
//
// Invariants of what the sink hears:
//  1. For a key: added, modified*, deleted, in this order, again and again. A new uid under a known
//     key is a deletion of the old and an addition of the new.
//  2. An object of one uid never goes back to an earlier resourceVersion.
//  3. on_synced() when everything that existed at the start, or at read_again(), has been told.
//     After losses of history additions and changes come as they are read and deletions at the end
//     of the reading: in between the sink may know objects that are gone, and misses none that it
//     was told before.
// Thread-safety: the client's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/quantity.h"
#include "kube/client/call.h"
#include "kube/client/clock.h"

namespace berth::kube {

enum class Change : std::uint8_t { added, modified, deleted };

struct ObjectEvent {
  Change change = Change::added;
  std::string_view key;       // "namespace/name", or "name"
  std::string_view uid;       // of a deletion without its object: empty if it was no UUID
  std::uint64_t version = 0;  // resourceVersion; 0: not a number
  // The object as JSON, kPadding bytes follow; of a deletion its last state. Empty where a deletion
  // was learned from its absence, or from another uid under its name.
  std::string_view object;
};

// All views are valid during the call only. The reflector may be stopped, not destroyed, inside.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  virtual void on_object(const ObjectEvent& event) = 0;
  virtual void on_synced() = 0;
  // Something that people should know, in one sentence: refused, history lost, a frame that is
  // none. Called once per change of state, not per try.
  virtual void on_trouble(std::string_view what) = 0;
};

struct ReflectorOptions {
  std::string path = {};      // "/api/v1/nodes"
  std::string selector = {};  // "fieldSelector=…&labelSelector=…", encoded
  bool watch_list = true;     // protocol A first
  Duration shortest_watch{300'000};
  Duration longest_watch{600'000};
};

struct ReflectorFigures {
  std::uint64_t objects = 0;
  std::uint64_t events = 0;
  std::uint64_t streams = 0;   // opened
  std::uint64_t readings = 0;  // of everything
  std::uint64_t failures = 0;
  bool synced = false;
  bool live = false;  // a stream is open and told everything
};

class Reflector {
 public:
  Reflector(Caller& caller, Timers& timers, Chance& chance, ReflectorOptions options,
            ObjectSink& sink);
  ~Reflector();  // ends without a word
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void start();
  void stop();
  // Everything is read anew, as it is now or later, and synced() is false until it was told; what
  // has not changed meanwhile is not told again. Not from within the sink.
  void read_again();
  bool synced() const;
  ReflectorFigures figures() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth::kube
