#include "gpu/xid.h"

#include <algorithm>
#include <array>

namespace berth::gpu {

namespace {

using enum XidClass;

// 43, 45, 68 and 109 are classed apart in nvidia-node.md 7; leases.md 5 makes them the
// application's for leases, and it is the page for them.
constexpr auto kRules = std::to_array<XidRule>({
    {8, 8, application},    {11, 11, application},   {13, 13, application},   {25, 25, application},
    {31, 32, application},  {37, 38, note},          {39, 41, application},   {43, 43, application},
    {44, 44, note},         {45, 45, application},   {46, 46, reset},         {48, 48, probe},
    {54, 54, gone},         {60, 60, application},   {62, 62, reset},         {63, 63, note},
    {64, 64, reset},        {66, 67, note},          {68, 72, application},   {74, 74, link},
    {75, 77, application},  {79, 79, gone},          {80, 80, application},   {82, 86, application},
    {88, 89, application},  {92, 93, note},          {94, 94, application},   {95, 95, reset},
    {96, 105, application}, {106, 108, note},        {109, 109, application}, {110, 110, reset},
    {119, 120, reset},      {121, 121, note},        {126, 135, application}, {136, 136, reset},
    {137, 137, note},       {139, 139, application}, {140, 140, reset},       {141, 141, note},
    {143, 143, reset},      {144, 150, link},        {151, 151, gone},        {152, 153, note},
    {154, 154, probe},      {155, 156, reset},       {157, 157, note},        {158, 158, reset},
    {160, 161, note},       {171, 172, probe},
});

}  // namespace

std::span<const XidRule> xid_rules() { return kRules; }

XidClass classify_xid(int xid) {
  const auto* const found = std::ranges::find_if(
      kRules, [xid](const XidRule& rule) { return rule.first <= xid && xid <= rule.last; });
  return found == kRules.end() ? probe : found->kind;
}

bool is_critical_xid(int xid) {
  const XidClass kind = classify_xid(xid);
  return kind != application && kind != note;
}

std::string_view xid_class_name(XidClass kind) {
  switch (kind) {
    case application: return "application";
    case note: return "note";
    case probe: return "probe";
    case reset: return "reset";
    case gone: return "gone";
    case link: return "link";
  }
  return "unknown";
}

}  // namespace berth::gpu
