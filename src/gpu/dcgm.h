// dcgm-exporter's page of metrics, read: Prometheus text, with or without time stamps.
//
//   const Report report = read_dcgm(text, {.node = "n1", .wall_ms = now});
//
// Samples without a time stamp are as old as the text. What is no line of that format is passed
// over and told in `problems`. Thread-safety: functions of their arguments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/exporter.h"
#include "gpu/source.h"

namespace berth::gpu {

struct DcgmText {
  std::vector<ExporterSample> samples;
  std::vector<std::string> problems;  // the first few lines that could not be read
};

DcgmText parse_dcgm(std::string_view text);

Report read_dcgm(std::string_view text, const ExporterOptions& options);

}  // namespace berth::gpu
