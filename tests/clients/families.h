// Every way in which a program can come by GPU memory, behind one face.
#pragma once

#include <string>
#include <vector>

#include "clients/calls.h"

namespace berth::client {

// One allocation and what is needed to give it back.
struct Held {
  const struct Family* family = nullptr;
  Pointer pointer = 0;
  Handle handle = nullptr;
  Handle second = nullptr;
  Pointer physical = 0;
  std::size_t bytes = 0;
  void* memory = nullptr;
};

struct Session {
  Calls calls{};
  Device device = 0;
  Handle context = nullptr;
  Handle stream = nullptr;
  std::vector<Held> held{};

  // cuInit, device, context, stream. The first code that is not 0, or 0.
  Code open(int device_number);
};

struct Family {
  const char* name;
  const char* what;
  bool counted;  // device memory of this process
  Code (*take)(Session& session, std::size_t bytes, Held& held);
  Code (*give_back)(Session& session, const Held& held);
};

// In a fixed order.
const std::vector<Family>& all_families();
const Family* family_named(const std::string& name);

// Takes `bytes` of the family; what was taken is added to session.held.
Code take(Session& session, const Family& family, std::size_t bytes);
// Gives back the last allocation, or all. The first code that is not 0.
Code give_back_last(Session& session);
Code give_back_all(Session& session);

}  // namespace berth::client
