// Queues of other schedulers -> Berth's: Kueue (ClusterQueue, Cohort, LocalQueue, ResourceFlavor,
// WorkloadPriorityClass; v1beta1 and v1beta2) and KAI (Queue of scheduling.run.ai/v2).
//
//   TRY(Import import, import_manifests({{"kueue.yaml", text}}));
//   queue_file_text(import.config);
//   for (const std::string& remark : import.remarks) …   // what has no equal, or differs
//
// Every value of every object is either used or remarked upon with its place, object, path and why.
// Sources: queues-gangs-topology.md 2.1, 2.2, 3; docs/queues.md has the rules in words.
// Thread-safety: pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/queue/queue_config.h"

namespace berth::config {

struct ManifestText {
  std::string file;
  std::string text;
};

struct Import {
  core::QueueConfig config;          // queues in order of names; no refusals, some may be on hold
  std::vector<std::string> remarks;  // "FILE:LINE:COLUMN: KIND NAME: PATH 'VALUE': WHY"
};

// Errors: all that cannot be read, a line each; no queue at all.
Result<Import> import_manifests(const std::vector<ManifestText>& manifests);

}  // namespace berth::config
