// XID: the driver's numbers for what went wrong on a GPU, and what each means for grants.
//
// Source: nvidia-node.md 7 (classes) and leases.md 5 (13, 31, 43, 45, 68, 109 are the fault of an
// application: logged, not drained). A number that no row names is critical: an unknown error is
// not a harmless one.
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace berth::gpu {

enum class XidClass : std::uint8_t {
  application,  // the program's own fault: the device stays healthy
  note,         // worth a line in the log: the device stays healthy
  probe,        // no new grants until the device has been looked at
  reset,        // needs a reset of the GPU
  gone,         // fallen off the bus, power, virtual machine: needs hands
  link,         // NVLink
};

struct XidRule {
  int first = 0;  // inclusive range of numbers
  int last = 0;
  XidClass kind = XidClass::probe;
};

// Every row, ascending; rows do not overlap.
std::span<const XidRule> xid_rules();

XidClass classify_xid(int xid);

// The device must not be used: neither the application's fault nor a mere note.
bool is_critical_xid(int xid);

// "reset": for logs.
std::string_view xid_class_name(XidClass kind);

}  // namespace berth::gpu
