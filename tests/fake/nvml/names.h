// The entry points by name, for fault injection and counting. Generated contents.
#pragma once

namespace berth::fake::nvml {

extern const char* const kNames[];
extern const int kNameCount;

}  // namespace berth::fake::nvml
