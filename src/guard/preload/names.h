// Names of the driver's functions: which we export, and what cuGetProcAddress means by them.
// The tables are made by tools/guard-tables from names.list. Thread-safety: constants.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guard/preload/abi.h"

namespace berth::guard {

enum class Name : std::uint16_t;

// One binary interface of a base name.
struct Abi {
  Name name;
  int first;  // CUDA version that introduced it: 1000 * major + 10 * minor
  bool per_thread;
  bool launch;
};

struct BaseName {
  const char* text;
  std::uint16_t first;  // index into kAbis
  std::uint16_t count;
};

template <Name kName>
struct Signature;

#include "guard/preload/guard_names.inc"

constexpr std::uint32_t name_hash(const char* text, std::uint32_t seed) {
  std::uint32_t value = seed;
  for (; *text != '\0'; ++text)
    value = (value ^ static_cast<std::uint8_t>(*text)) * 0x01000193U;
  return (value ^ (value >> 15U)) % kHashSlots;
}

constexpr bool same_text(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

constexpr bool ends_with(const char* text, const char* end) {
  std::size_t n = 0;
  std::size_t m = 0;
  while (text[n] != '\0')
    ++n;
  while (end[m] != '\0')
    ++m;
  return n >= m && same_text(text + n - m, end);
}

constexpr std::uint16_t index_of(Name name) { return static_cast<std::uint16_t>(name); }

// Index of an exported name, or -1. Decides by the exact text.
constexpr int exported_index(const char* text) {
  const int index = kNameSlots[name_hash(text, kNameSeed)] - 1;
  return index >= 0 && same_text(kNameTexts[index], text) ? index : -1;
}

inline bool is_base_name(const char* text) {
  const int index = kBaseSlots[name_hash(text, kBaseSeed)] - 1;
  return index >= 0 && same_text(kBases[index].text, text);
}

// What (base name, version, flags) means, or nullptr if we hook nothing of that name.
inline const Abi* find_abi(const char* text, int version, bool per_thread) {
  if (!is_base_name(text)) return nullptr;
  const BaseName& base = kBases[kBaseSlots[name_hash(text, kBaseSeed)] - 1];
  const Abi* best = nullptr;
  for (const Abi* abi = kAbis + base.first; abi != kAbis + base.first + base.count; ++abi) {
    if (abi->first > version || (abi->per_thread && !per_thread)) continue;
    // The per-thread forms come last and win where they exist.
    best = abi;
  }
  return best;
}

}  // namespace berth::guard
