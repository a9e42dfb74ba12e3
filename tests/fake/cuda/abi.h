// The driver interface's own types, as far as the fake needs them: codes, descriptors, parameter
// blocks.
//
// Written from the public description of the interface (CUDA 13.0); sizes and offsets are asserted,
// since programs built elsewhere pass these structures. Handles are pointers to the fake's own
// objects.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::fake::cuda {
struct Context;
struct Stream;
struct Event;
struct Module;
struct Function;
struct Library;
struct Array;
struct MipmappedArray;
struct Pool;
struct Graph;
struct GraphExec;
struct Node;
struct External;
struct Resource;
struct GreenContext;
struct Reference;
struct Linker;
}  // namespace berth::fake::cuda

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUdeviceptr_v1 = unsigned int;
using CUcontext = berth::fake::cuda::Context*;
using CUstream = berth::fake::cuda::Stream*;
using CUevent = berth::fake::cuda::Event*;
using CUmodule = berth::fake::cuda::Module*;
using CUfunction = berth::fake::cuda::Function*;
using CUlibrary = berth::fake::cuda::Library*;
using CUkernel = berth::fake::cuda::Function*;
using CUarray = berth::fake::cuda::Array*;
using CUmipmappedArray = berth::fake::cuda::MipmappedArray*;
using CUmemoryPool = berth::fake::cuda::Pool*;
using CUgraph = berth::fake::cuda::Graph*;
using CUgraphExec = berth::fake::cuda::GraphExec*;
using CUgraphNode = berth::fake::cuda::Node*;
using CUexternalMemory = berth::fake::cuda::External*;
using CUgraphicsResource = berth::fake::cuda::Resource*;
using CUgreenCtx = berth::fake::cuda::GreenContext*;
using CUlinkState = berth::fake::cuda::Linker*;
using CUmemGenericAllocationHandle = unsigned long long;

namespace berth::fake::cuda {

// Only the codes that the fake answers.
enum Code : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kAlreadyMapped = 208,
  kNotMapped = 211,
  kEccUncorrectable = 214,
  kFileNotFound = 301,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kPrimaryContextActive = 708,
  kContextIsDestroyed = 709,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureImplicit = 906,
  kUnknown = 999,
};

struct ArrayDescriptor {
  std::size_t width;
  std::size_t height;
  int format;
  unsigned int channels;
};
static_assert(sizeof(ArrayDescriptor) == 24);

struct ArrayDescriptorV1 {
  unsigned int width;
  unsigned int height;
  int format;
  unsigned int channels;
};
static_assert(sizeof(ArrayDescriptorV1) == 16);

struct Array3dDescriptor {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
  int format;
  unsigned int channels;
  unsigned int flags;
};
static_assert(sizeof(Array3dDescriptor) == 40);

struct Array3dDescriptorV1 {
  unsigned int width;
  unsigned int height;
  unsigned int depth;
  int format;
  unsigned int channels;
  unsigned int flags;
};
static_assert(sizeof(Array3dDescriptorV1) == 24);

struct MemLocation {
  int type;  // 1 device, 2 host, 3 host NUMA, 4 host NUMA of the calling thread
  int id;
};

struct AllocationProp {
  int type;  // 1 = pinned
  int handle_types;
  MemLocation location;
  void* win32_meta;
  unsigned char compression;
  unsigned char gpu_direct;
  unsigned short usage;
  unsigned char reserved[4];
};
static_assert(sizeof(AllocationProp) == 32 && offsetof(AllocationProp, location) == 8);

struct PoolProps {
  int type;
  int handle_types;
  MemLocation location;
  void* win32_attributes;
  std::size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};
static_assert(sizeof(PoolProps) == 88);

struct AccessDesc {
  MemLocation location;
  int flags;
};
static_assert(sizeof(AccessDesc) == 12);

struct AllocNodeParams {
  PoolProps pool;
  const AccessDesc* access;
  std::size_t access_count;
  std::size_t bytes;
  CUdeviceptr pointer;
};
static_assert(sizeof(AllocNodeParams) == 120 && offsetof(AllocNodeParams, bytes) == 104);

struct Uuid {
  unsigned char bytes[16];
};

struct IpcHandle {
  char reserved[64];
};

struct LaunchConfig {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
  CUstream stream;
  void* attributes;
  unsigned int attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);

struct Copy2d {
  std::size_t source_x;
  std::size_t source_y;
  int source_type;  // 1 host, 2 device, 3 array, 4 unified
  const void* source_host;
  CUdeviceptr source_device;
  CUarray source_array;
  std::size_t source_pitch;
  std::size_t target_x;
  std::size_t target_y;
  int target_type;
  void* target_host;
  CUdeviceptr target_device;
  CUarray target_array;
  std::size_t target_pitch;
  std::size_t width;
  std::size_t height;
};
static_assert(sizeof(Copy2d) == 128);

struct Copy3d {
  std::size_t source_x;
  std::size_t source_y;
  std::size_t source_z;
  std::size_t source_lod;
  int source_type;
  const void* source_host;
  CUdeviceptr source_device;
  CUarray source_array;
  void* source_context;
  std::size_t source_pitch;
  std::size_t source_height;
  std::size_t target_x;
  std::size_t target_y;
  std::size_t target_z;
  std::size_t target_lod;
  int target_type;
  void* target_host;
  CUdeviceptr target_device;
  CUarray target_array;
  void* target_context;
  std::size_t target_pitch;
  std::size_t target_height;
  std::size_t width;
  std::size_t height;
  std::size_t depth;
};
static_assert(sizeof(Copy3d) == 200);

}  // namespace berth::fake::cuda
