// `berth gpus --node-annotation`: this machine's GPUs in the form in which a Kubernetes node tells
// them (interfaces.md 7). Asks the driver, not the daemon.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace berth::cli {

inline constexpr Option kNodeAnnotationOption{
    .name = "--node-annotation",
    .help = "print this machine's GPUs as the value of the node annotation berth.dev/devices"};
inline constexpr Option kOwnedOption{
    .name = "--owned",
    .help = "with --node-annotation: no other allocator (device plug-in) hands these GPUs out"};
inline constexpr Option kBackendOption{
    .name = "--backend",
    .kind = ValueKind::choice,
    .value = "NAME",
    .help = "with --node-annotation: what holds a container to its share on this node",
    .fallback = "none",
    .choices = [] { return std::vector<std::string>{"none", "guard", "fractiond"}; }};

ExitCode print_node_annotation(const Arguments& arguments, Console& console);

}  // namespace berth::cli
