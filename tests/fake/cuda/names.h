// The entry points by name: for fault injection, counting and cuGetProcAddress. Generated contents.
#pragma once

namespace berth::fake::cuda {

extern const char* const kNames[];
extern const int kNameCount;

// One row of what cuGetProcAddress can answer; sorted by base, stream, version.
struct Obtainable {
  const char* base;
  int per_thread;
  int version;
  int name;
  void* function;
};
extern const Obtainable kObtainable[];
extern const int kObtainableCount;

// The place of `name` in kNames, -1 if the fake has no such entry point.
int number_of(const char* name);

}  // namespace berth::fake::cuda
