// Exposition: metrics in Prometheus's text format, version 0.0.4.
//
//   Exposition text;
//   text.family("berth_device_memory_bytes", "gauge", "Memory of a device by state.");
//   text.sample({{"uuid", uuid}, {"state", "total"}}, bytes);
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace berth::api {

class Exposition {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // Samples that follow belong to it.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(Labels labels, std::int64_t value);
  void sample(std::int64_t value) { sample({}, value); }
  void sample_seconds(Labels labels, std::int64_t ms);  // ms, written as seconds

  std::string take() { return std::move(text_); }

 private:
  void head(Labels labels);

  std::string text_;
  std::string name_;
};

}  // namespace berth::api
