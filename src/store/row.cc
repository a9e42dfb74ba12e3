#include "store/row.h"

#include <bit>
#include <cstring>

namespace berth::store {

namespace {

// Every step is a bijection of the state for a given word and of the word for a given state, so a
// change of a single word cannot cancel out.
class Mixer {
 public:
  void add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 29U;
  }

  void add(std::string_view text) {
    add(text.size());
    while (text.size() >= sizeof(std::uint64_t)) {
      add(word(text));
      text.remove_prefix(sizeof(std::uint64_t));
    }
    if (!text.empty()) {
      add(word(text));
    }
  }

  std::uint64_t sum() {
    add(0x5bd1e9955bd1e995ULL);
    add(0xff51afd7ed558ccdULL);
    return state_;
  }

 private:
  // The first eight bytes, little-endian, zeros where there are fewer.
  static std::uint64_t word(std::string_view text) {
    std::uint64_t word = 0;
    if (text.size() >= sizeof(word)) {
      std::memcpy(&word, text.data(), sizeof(word));
    } else {
      std::memcpy(&word, text.data(), text.size());
    }
    static_assert(std::endian::native == std::endian::little);
    return word;
  }

  std::uint64_t state_ = 0x6265727468000001ULL;
};

}  // namespace

std::uint64_t sum_of(const Row& row) {
  Mixer mixer;
  mixer.add(static_cast<std::uint64_t>(row.seq));
  mixer.add(static_cast<std::uint64_t>(row.place));
  mixer.add(row.kind);
  mixer.add(row.id);
  mixer.add(row.body ? std::uint64_t{1} : std::uint64_t{0});
  mixer.add(row.body.value_or(std::string_view()));
  return mixer.sum();
}

}  // namespace berth::store
