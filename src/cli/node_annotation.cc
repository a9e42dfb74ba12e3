#include "cli/node_annotation.h"

#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cli/daemon_client.h"
#include "gpu/nvml.h"
#include "kube/objects/write_node_annotation.h"

namespace berth::cli {

namespace {

kube::NodeBackend backend_of(std::string_view name) {
  for (const kube::NodeBackend backend : {kube::NodeBackend::guard, kube::NodeBackend::fractiond}) {
    if (kube::backend_name(backend) == name) {
      return backend;
    }
  }
  return kube::NodeBackend::none;
}

Result<std::string> annotation_of(const Arguments& arguments, Console& console) {
  TRY(const std::unique_ptr<gpu::Source> source,
      gpu::make_nvml_source(gpu::NvmlOptions{.node = "this"}));
  const gpu::Report report = source->read();
  if (!report.up) {
    return Error{ErrorCode::unavailable, report.why_down};
  }
  kube::DevicesOfNode node{.backend = backend_of(*arguments.value(kBackendOption.name)),
                           .owned = arguments.has(kOwnedOption.name)};
  for (const gpu::DeviceReport& device : report.devices) {
    if (!device.problem.empty()) {
      console.err << fmt::format("{}: {}\n", device.device.uuid, device.problem);
    }
    node.devices.push_back(device.device);
  }
  if (node.devices.empty()) {
    return Error{ErrorCode::not_found, "the driver knows no GPU on this machine"};
  }
  return kube::write_devices_annotation(node);
}

}  // namespace

ExitCode print_node_annotation(const Arguments& arguments, Console& console) {
  const Result<std::string> text = annotation_of(arguments, console);
  if (!text) {
    return fail("gpus", text.error(), console);
  }
  console.out << *text << "\n";
  if (console.out_is_terminal) {
    console.err << "Put it on the node: kubectl annotate node NAME --overwrite "
                   "\"berth.dev/devices=$(berth gpus --node-annotation --owned)\"\n";
  }
  if (!arguments.has(kOwnedOption.name)) {
    console.err << "Without --owned no shares are placed here: say it once no device plug-in "
                   "hands these GPUs out.\n";
  }
  return ExitCode::done;
}

}  // namespace berth::cli
