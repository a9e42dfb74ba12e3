// NVML: memory by the formulas of view.h, processes of the grant only.
#pragma once

#include "guard/preload/call.h"
#include "guard/preload/nvml.h"
#include "guard/preload/view.h"

namespace berth::guard::hooks {

template <Name kName>
int nvml_memory(NvmlDevice device, NvmlMemory* out) {
  const Call call;
  const int code = driver<kName>(device, out);
  if (code != kNvmlSuccess || out == nullptr || !call.counts()) return code;
  const int target = target_of_handle(device);
  if (target == kUntouched) return code;
  const MemoryView view = view_of(target, out->total, out->free);
  *out = {.total = view.total, .free = view.free, .used = view.total - view.free};
  return code;
}

template <Name kName>
int nvml_memory_v2(NvmlDevice device, NvmlMemoryV2* out) {
  const Call call;
  const int code = driver<kName>(device, out);
  if (code != kNvmlSuccess || out == nullptr || out->version != kNvmlMemoryV2 || !call.counts()) {
    return code;
  }
  const int target = target_of_handle(device);
  if (target == kUntouched) return code;
  const MemoryView view = view_of(target, out->total, out->free);
  out->total = view.total;
  out->free = view.free;
  out->used = view.used;
  out->reserved = view.total - view.free - view.used;
  return code;
}

template <Name kName, typename Item>
int nvml_processes_as(NvmlDevice device, unsigned* count, void* list) {
  const Call call;
  if (!call.counts() || !is_filtering()) return driver<kName>(device, count, list);
  return filtered_list<Item>(count, static_cast<Item*>(list), [&](unsigned* n, Item* to) {
    return driver<kName>(device, n, static_cast<void*>(to));
  });
}

template <Name kName>
int nvml_processes_v1(NvmlDevice device, unsigned* count, void* list) {
  return nvml_processes_as<kName, NvmlProcessV1>(device, count, list);
}

template <Name kName>
int nvml_processes(NvmlDevice device, unsigned* count, void* list) {
  return nvml_processes_as<kName, NvmlProcess>(device, count, list);
}

template <Name kName>
int nvml_detail_list(NvmlDevice device, NvmlProcessDetailList* list) {
  const Call call;
  if (!call.counts() || !is_filtering() || list == nullptr || list->version != kNvmlDetailListV1) {
    return driver<kName>(device, list);
  }
  return filtered_list<NvmlProcessDetail>(&list->count, list->list,
                                          [&](unsigned* n, NvmlProcessDetail* to) {
                                            NvmlProcessDetailList asked = *list;
                                            asked.count = *n;
                                            asked.list = to;
                                            const int code = driver<kName>(device, &asked);
                                            *n = asked.count;
                                            return code;
                                          });
}

template <Name kName>
int nvml_process_utilization(NvmlDevice device, NvmlProcessSample* samples, unsigned* count,
                             Flags64 since) {
  const Call call;
  if (!call.counts() || !is_filtering()) return driver<kName>(device, samples, count, since);
  return filtered_list<NvmlProcessSample>(count, samples, [&](unsigned* n, NvmlProcessSample* to) {
    return driver<kName>(device, to, n, since);
  });
}

template <Name kName>
int nvml_processes_utilization(NvmlDevice device, NvmlProcessesUtilization* info) {
  const Call call;
  if (!call.counts() || !is_filtering() || info == nullptr ||
      info->version != kNvmlProcessesUtilizationV1) {
    return driver<kName>(device, info);
  }
  return filtered_list<NvmlProcessUtilization>(&info->count, info->list,
                                               [&](unsigned* n, NvmlProcessUtilization* to) {
                                                 NvmlProcessesUtilization asked = *info;
                                                 asked.count = *n;
                                                 asked.list = to;
                                                 const int code = driver<kName>(device, &asked);
                                                 *n = asked.count;
                                                 return code;
                                               });
}

struct BarePid {
  unsigned pid;
};

template <Name kName>
int nvml_accounting_pids(NvmlDevice device, unsigned* count, unsigned* pids) {
  const Call call;
  if (!call.counts() || !is_filtering()) return driver<kName>(device, count, pids);
  return filtered_list<BarePid>(count, reinterpret_cast<BarePid*>(pids),
                                [&](unsigned* n, BarePid* to) {
                                  return driver<kName>(device, n, reinterpret_cast<unsigned*>(to));
                                });
}

// The whole card's, unless the policy asks for the share's own and the processes' can be had.
template <Name kName>
int nvml_utilization(NvmlDevice device, NvmlUtilization* out) {
  const Call call;
  const int code = driver<kName>(device, out);
  if (code != kNvmlSuccess || out == nullptr || !call.counts() ||
      (g_grant.policy->flags.load() & policy_share_utilisation) == 0) {
    return code;
  }
  const OwnPids own;
  const ListMemory memory(kMostProcesses * sizeof(NvmlProcessSample));
  unsigned count = kMostProcesses;
  if (!own.known() || !memory.good() ||
      driver<Name::nvmlDeviceGetProcessUtilization>(device, memory.as<NvmlProcessSample>(), &count,
                                                    Flags64{0}) != kNvmlSuccess) {
    return code;
  }
  count = keep_own(memory.as<NvmlProcessSample>(), count < kMostProcesses ? count : kMostProcesses,
                   own);
  NvmlUtilization sum = {};
  for (unsigned i = 0; i < count; ++i) {
    sum.gpu += memory.as<NvmlProcessSample>()[i].sm;
    sum.memory += memory.as<NvmlProcessSample>()[i].memory;
  }
  *out = {.gpu = sum.gpu < 100 ? sum.gpu : 100, .memory = sum.memory < 100 ? sum.memory : 100};
  return code;
}

template <Name kName>
int nvml_export_table(const void** table, const void* id) {
  const Call call;
  const int code = driver<kName>(table, id);
  if (code != kNvmlSuccess || table == nullptr || *table == nullptr || id == nullptr ||
      !call.counts() || (g_grant.policy->flags.load() & policy_private_table) == 0) {
    return code;
  }
  *table = private_table_for(*table, id);
  return code;
}

}  // namespace berth::guard::hooks
