// A checked quota tree on a fleet, as a table and as JSON or YAML (docs/queues.md has the fields).
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "config/queue_file.h"
#include "config/queue_plan.h"
#include "sim/document.h"

namespace berth::cli {

std::string queues_table(const config::QueuePlan& plan);

sim::Document queues_document(const config::QueuePlan& plan, const config::QueueFile& file);

}  // namespace berth::cli
