// What `berth run` and `berth submit` ask for in the same words: the place and its terms.
#pragma once

#include "cli/command.h"

namespace berth::cli {

inline constexpr Option kGpuMemoryOption{
    .name = "--gpu-memory",
    .kind = ValueKind::text,
    .value = "SIZE",
    .help =
        "memory on the GPU that is guaranteed: 4Gi, 4G and 4096 are 4096 MiB; 4GB is 10^9 "
        "bytes each"};
inline constexpr Option kLimitOption{
    .name = "--limit",
    .kind = ValueKind::text,
    .value = "SIZE",
    .help = "memory that it may use beyond its guarantee while nobody else needs it"};
inline constexpr Option kGpusOption{
    .name = "--gpus",
    .kind = ValueKind::text,
    .value = "N",
    .help = "so many GPUs of this machine, each with that memory; without --gpu-memory whole ones"};
inline constexpr Option kFractionOption{
    .name = "--fraction",
    .kind = ValueKind::text,
    .value = "F",
    .help = "instead of --gpu-memory: that share of a GPU's memory, such as 0.5"};
inline constexpr Option kMigProfileOption{
    .name = "--mig-profile",
    .kind = ValueKind::text,
    .value = "PROFILE",
    .help = "instead of --gpu-memory: a MIG device, such as 1g.10gb"};
inline constexpr Option kQueueOption{
    .name = "--queue",
    .kind = ValueKind::text,
    .value = "NAME",
    .help = "whose share it counts against (`berth queues`; default: default)"};
inline constexpr Option kPriorityOption{.name = "--priority",
                                        .kind = ValueKind::text,
                                        .value = "N",
                                        .help = "higher ones are placed first (default: 0)"};
inline constexpr Option kWaitTimeoutOption{
    .name = "--wait-timeout",
    .kind = ValueKind::text,
    .value = "TIME",
    .help = "give up when it has waited so long: 30s, 10m, 2h (default: never)"};
inline constexpr Option kTimeOption{
    .name = "--time",
    .kind = ValueKind::text,
    .value = "TIME",
    .help = "end it when it has run so long; others are placed by it"};
inline constexpr Option kGraceOption{
    .name = "--grace",
    .kind = ValueKind::text,
    .value = "TIME",
    .help = "how long it may take to end when it is told to, before it is killed",
    .fallback = "30s"};
inline constexpr Option kNoGuardOption{
    .name = "--no-guard",
    .help = "do not load the library that holds the memory limit inside of the program"};

}  // namespace berth::cli
