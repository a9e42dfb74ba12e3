// QueueConfig -> the text of a queue file, which reads back to the same value.
//
// Only what differs from the default is written. Thread-safety: pure.
#pragma once

#include <string>
#include <string_view>

#include "core/queue/queue_config.h"

namespace berth::config {

// YAML with `queues:` and, if it is not the default, `priorityRule:`. `remark`: lines that go to
// the top as comments. Requires a configuration without refusals (core::check_queues), `created`
// from 1970 on, and texts in UTF-8.
std::string queue_file_text(const core::QueueConfig& config, std::string_view remark = {});

}  // namespace berth::config
