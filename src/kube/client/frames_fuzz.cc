// The same bytes in one piece and in two give the same frames and items, and nothing breaks.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "kube/client/frames.h"

namespace {

using berth::kube::FrameSplitter;
using berth::kube::ListSplitter;

std::vector<std::string> frames(std::string_view first, std::string_view second) {
  std::vector<std::string> all;
  FrameSplitter splitter;
  const auto each = [&all](std::string_view frame) {
    all.emplace_back(frame);
    return true;
  };
  splitter.feed(first, each);
  splitter.feed(second, each);
  return all;
}

std::vector<std::string> items(std::string_view first, std::string_view second) {
  std::vector<std::string> all;
  ListSplitter splitter;
  const auto each = [&all](std::string_view item) { all.emplace_back(item); };
  const bool ok = splitter.feed(first, each).ok() && splitter.feed(second, each).ok();
  all.emplace_back(ok ? "ok" : "not");
  all.emplace_back(splitter.complete() ? "complete" : "not");
  all.push_back(splitter.resource_version());
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = size == 0 ? 0 : data[0] * size / 256;
  const std::vector<std::string> whole = frames(bytes, {});
  ASSERT(whole == frames(bytes.substr(0, cut), bytes.substr(cut)));
  ASSERT(items(bytes, {}) == items(bytes.substr(0, cut), bytes.substr(cut)));
  for (const std::string& frame : whole) {
    const auto head = berth::kube::read_frame_head(frame);
    if (head.ok()) static_cast<void>(berth::kube::read_meta_head(head->object));
  }
  return 0;
}
