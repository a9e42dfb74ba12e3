// The road of programs that are linked against the driver: the loader binds every name at the
// start.
#include "clients/calls.h"

extern "C" {
using berth::client::Access;
using berth::client::AllocationNode;
using berth::client::AllocationProperties;
using berth::client::Array3dShape;
using berth::client::ArrayShape;
using berth::client::Code;
using berth::client::Device;
using berth::client::ExternalBuffer;
using berth::client::ExternalMemory;
using berth::client::Handle;
using berth::client::IpcHandle;
using berth::client::Pointer;
using berth::client::PoolProperties;
using berth::client::Uuid;
#define BERTH_DECLARE(name, base, version, parameters) Code name parameters;
BERTH_CALLS(BERTH_DECLARE)
#undef BERTH_DECLARE
}

namespace berth::client {

const char* road_name(Road) { return "direct"; }

bool road_named(const char*, Road*) { return false; }

bool load(Road, Calls* calls, const char**, const char*) {
#define BERTH_TAKE(name, base, version, parameters) calls->name = ::name;
  BERTH_CALLS(BERTH_TAKE)
#undef BERTH_TAKE
  return true;
}

}  // namespace berth::client
