// Whatever a kubeconfig says, there is an access or one sentence.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "kube/client/exec_plugin.h"
#include "kube/client/kubeconfig.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto access =
      berth::kube::read_kubeconfig({{.path = "/nowhere/config", .text = std::string(text)}}, "");
  if (access.ok()) {
    ASSERT(access->server.starts_with("http"));
  } else {
    ASSERT(!access.error().message().empty());
  }
  const berth::kube::ExecPlugin plugin{.api_version = "client.authentication.k8s.io/v1",
                                       .command = "x"};
  static_cast<void>(berth::kube::read_exec_credential(text, plugin));
  return 0;
}
