#include "fake/state/visible.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace berth::fake {

namespace {

std::string_view next_word(std::string_view& list) {
  const std::size_t comma = list.find(',');
  std::string_view word = list.substr(0, comma);
  list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  while (!word.empty() && word.front() == ' ')
    word.remove_prefix(1);
  while (!word.empty() && word.back() == ' ')
    word.remove_suffix(1);
  return word;
}

bool is_instance(const DeviceEntry& entry) { return entry.parent >= 0; }

// The device that a word of CUDA_VISIBLE_DEVICES means, -1 if none or several.
int device_named(const State& state, std::string_view word, const int (&gpus)[kMaxDevices],
                 int gpu_count) {
  if (word.empty()) return -1;
  if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) {
    int number = 0;
    for (const char c : word) {
      if (std::isdigit(static_cast<unsigned char>(c)) == 0 || number > kMaxDevices) return -1;
      number = number * 10 + (c - '0');
    }
    return number < gpu_count ? gpus[number] : -1;
  }
  int found = -1;
  for (int device = 0; device < static_cast<int>(state.header.device_count); ++device) {
    const DeviceEntry& entry = state.devices[device];
    const std::string_view uuid = entry.uuid_text;
    if (entry.used == 0 || uuid.substr(0, word.size()) != word) continue;
    if (found >= 0) return -1;
    found = device;
  }
  return found;
}

}  // namespace

bool exists(const State& state, int device, const char* existing) {
  if (existing == nullptr || std::strcmp(existing, "all") == 0) return true;
  const DeviceEntry& entry = state.devices[device];
  std::string_view list = existing;
  while (!list.empty()) {
    const std::string_view word = next_word(list);
    if (word == entry.uuid_text) return true;
    if (is_instance(entry) && word == state.devices[entry.parent].uuid_text) return true;
    // A GPU one of whose instances is there can be asked for its name, as in a container.
    for (int other = 0; other < static_cast<int>(state.header.device_count); ++other) {
      if (state.devices[other].used != 0 && state.devices[other].parent == device &&
          word == state.devices[other].uuid_text) {
        return true;
      }
    }
  }
  return false;
}

int existing_gpus(const State& state, const char* existing, int (&chosen)[kMaxDevices]) {
  int count = 0;
  for (int device = 0; device < static_cast<int>(state.header.device_count); ++device) {
    const DeviceEntry& entry = state.devices[device];
    if (entry.used != 0 && !is_instance(entry) && exists(state, device, existing)) {
      chosen[count++] = device;
    }
  }
  std::sort(chosen, chosen + count, [&](int left, int right) {
    return state.devices[left].index < state.devices[right].index;
  });
  return count;
}

int visible_devices(const State& state, const char* cuda, const char* existing,
                    int (&chosen)[kMaxDevices]) {
  int gpus[kMaxDevices];
  const int gpu_count = existing_gpus(state, existing, gpus);
  int count = 0;
  if (cuda == nullptr) {
    for (int place = 0; place < gpu_count; ++place) {
      const DeviceEntry& entry = state.devices[gpus[place]];
      if (entry.mig_mode.load() == 0 && entry.lost.load() == 0) chosen[count++] = gpus[place];
    }
    if (count > 0) return count;
    for (int device = 0; device < static_cast<int>(state.header.device_count); ++device) {
      const DeviceEntry& entry = state.devices[device];
      if (entry.used == 0 || !is_instance(entry) || !exists(state, device, existing)) continue;
      chosen[0] = device;
      return 1;
    }
    return 0;
  }
  std::string_view list = cuda;
  while (!list.empty()) {
    const int device = device_named(state, next_word(list), gpus, gpu_count);
    if (device < 0 || !exists(state, device, existing)) break;
    if (std::find(chosen, chosen + count, device) != chosen + count) return 0;  // named twice
    const DeviceEntry& entry = state.devices[device];
    if (entry.mig_mode.load() != 0 || entry.lost.load() != 0) break;
    if (is_instance(entry)) {
      if (count > 0) break;
      chosen[0] = device;
      return 1;
    }
    chosen[count++] = device;
  }
  return count;
}

}  // namespace berth::fake
