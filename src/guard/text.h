// Text in a fixed buffer, for code that may neither allocate nor use stdio.
//
//   Text<128> path;
//   path.add("/proc/").number(pid).add("/stat");
//   open(path.c_str());
//
// What does not fit is cut off. Thread-safety: a value type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::guard {

template <std::size_t kBytes>
class Text {
 public:
  Text& add(const char* text) {
    while (text != nullptr && *text != '\0')
      put(*text++);
    return *this;
  }

  // At most `most` bytes of a text that may lack its end.
  Text& add(const char* text, std::size_t most) {
    for (std::size_t i = 0; i < most && text[i] != '\0'; ++i)
      put(text[i]);
    return *this;
  }

  Text& number(std::uint64_t value) {
    char digits[20];
    int n = 0;
    do {
      digits[n++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (n > 0)
      put(digits[--n]);
    return *this;
  }

  Text& hex(std::uint8_t byte) {
    put("0123456789abcdef"[byte >> 4]);
    return put("0123456789abcdef"[byte & 15]);
  }

  // A device's UUID as NVIDIA writes it, without the prefix.
  Text& uuid(const std::uint8_t* bytes) {
    for (int i = 0; i < 16; ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) put('-');
      hex(bytes[i]);
    }
    return *this;
  }

  const char* c_str() const { return text_; }

  std::size_t size() const { return size_; }

 private:
  Text& put(char c) {
    if (size_ + 1 < kBytes) {
      text_[size_++] = c;
      text_[size_] = '\0';
    }
    return *this;
  }

  char text_[kBytes] = {};
  std::size_t size_ = 0;
};

}  // namespace berth::guard
