// Names of the things an engine knows, as dense ids. See base/id.h.
#pragma once

#include "base/id.h"

namespace berth::core {

struct NodeTag;
struct DeviceTag;
struct WorkloadTag;

using NodeId = Id<NodeTag>;          // given out by Fleet, in order of first appearance
using DeviceId = Id<DeviceTag>;      // given out by Fleet; one UUID keeps its id for ever
using WorkloadId = Id<WorkloadTag>;  // given out by Engine; reused only after the workload is gone

}  // namespace berth::core
