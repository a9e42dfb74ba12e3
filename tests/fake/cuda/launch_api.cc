// Entry points that launch kernels.
#include "fake/cuda/graph.h"
#include "fake/cuda/module.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

namespace {

struct Shape {
  unsigned int grid[3];
  unsigned int block[3];
};

bool is_possible(const Shape& shape) {
  constexpr unsigned int kMostThreads = 1024;
  for (const unsigned int part : shape.grid) {
    if (part == 0) return false;
  }
  std::uint64_t threads = 1;
  for (const unsigned int part : shape.block) {
    if (part == 0 || part > kMostThreads) return false;
    threads *= part;
  }
  return threads <= kMostThreads;
}

// The quick road costs no lock: a kernel without duration changes nothing but what is checked.
CUresult launch_kernel(CUfunction function, const Shape& shape, CUstream handle, bool per_thread) {
  BERTH_RESOLVE(handle, per_thread, stream);
  if (!g_functions.is_live(function)) return kInvalidHandle;
  if (!is_possible(shape)) return kInvalidValue;
  const std::uint64_t duration = duration_of(*function);
  if (stream->capture != nullptr) return capture_plain(*stream, NodeType::kernel, duration);
  if (duration == 0) return kSuccess;
  const Guard guard(driver().lock);
  add_work(*stream, duration);
  return kSuccess;
}

constexpr Shape kOne{.grid = {1, 1, 1}, .block = {1, 1, 1}};

}  // namespace

static CUresult cuLaunchKernel_body(const char* entry, bool per_thread, CUfunction function,
                                    const Shape& shape, CUstream stream) {
  ENTER_AS(entry);
  return launch_kernel(function, shape, stream, per_thread);
}
#define BERTH_LAUNCH_PARAMS                                                            \
  (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
   unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int,     \
   CUstream stream, void**, void**)
#define BERTH_LAUNCH_SHAPE                                                   \
  Shape {                                                                    \
    .grid = {grid_x, grid_y, grid_z}, .block = { block_x, block_y, block_z } \
  }
BERTH_STREAM_CALL(cuLaunchKernel, ptsz, BERTH_LAUNCH_PARAMS,
                  (function, (BERTH_LAUNCH_SHAPE), stream))

static CUresult cuLaunchCooperativeKernel_body(const char* entry, bool per_thread,
                                               CUfunction function, const Shape& shape,
                                               CUstream stream) {
  ENTER_AS(entry);
  return launch_kernel(function, shape, stream, per_thread);
}
BERTH_STREAM_CALL(cuLaunchCooperativeKernel, ptsz,
                  (CUfunction function, unsigned int grid_x, unsigned int grid_y,
                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                   unsigned int block_z, unsigned int, CUstream stream, void**),
                  (function, (BERTH_LAUNCH_SHAPE), stream))

static CUresult cuLaunchKernelEx_body(const char* entry, bool per_thread,
                                      const LaunchConfig* config, CUfunction function) {
  ENTER_AS(entry);
  if (config == nullptr) return kInvalidValue;
  const Shape shape{.grid = {config->grid[0], config->grid[1], config->grid[2]},
                    .block = {config->block[0], config->block[1], config->block[2]}};
  return launch_kernel(function, shape, config->stream, per_thread);
}
BERTH_STREAM_CALL(cuLaunchKernelEx, ptsz,
                  (const LaunchConfig* config, CUfunction function, void**, void**),
                  (config, function))

namespace {

struct MultiLaunch {
  CUfunction function;
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared;
  CUstream stream;
  void** parameters;
};
static_assert(sizeof(MultiLaunch) == 56);

}  // namespace

BERTH_CUDA cuLaunchCooperativeKernelMultiDevice(MultiLaunch* launches, unsigned int count,
                                                unsigned int) {
  ENTER(cuLaunchCooperativeKernelMultiDevice);
  if (launches == nullptr || count == 0) return kInvalidValue;
  for (unsigned int place = 0; place < count; ++place) {
    const MultiLaunch& one = launches[place];
    const Shape shape{.grid = {one.grid[0], one.grid[1], one.grid[2]},
                      .block = {one.block[0], one.block[1], one.block[2]}};
    const CUresult code = launch_kernel(one.function, shape, one.stream, false);
    if (code != kSuccess) return code;
  }
  return kSuccess;
}

BERTH_CUDA cuLaunch(CUfunction function) {
  ENTER(cuLaunch);
  return launch_kernel(function, kOne, nullptr, false);
}

BERTH_CUDA cuLaunchGrid(CUfunction function, int width, int height) {
  ENTER(cuLaunchGrid);
  return width <= 0 || height <= 0 ? kInvalidValue : launch_kernel(function, kOne, nullptr, false);
}

BERTH_CUDA cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  ENTER(cuLaunchGridAsync);
  return width <= 0 || height <= 0 ? kInvalidValue : launch_kernel(function, kOne, stream, false);
}

// The parameter calls of the oldest launches: nothing reads parameters here.
BERTH_CUDA cuParamSetSize(CUfunction, unsigned int) {
  ENTER(cuParamSetSize);
  return kSuccess;
}
BERTH_CUDA cuParamSeti(CUfunction, int, unsigned int) {
  ENTER(cuParamSeti);
  return kSuccess;
}
BERTH_CUDA cuParamSetf(CUfunction, int, float) {
  ENTER(cuParamSetf);
  return kSuccess;
}
BERTH_CUDA cuParamSetv(CUfunction, int, void*, unsigned int) {
  ENTER(cuParamSetv);
  return kSuccess;
}

BERTH_CUDA cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads,
                                                       std::size_t) {
  ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks);
  if (blocks == nullptr || threads <= 0) return kInvalidValue;
  *blocks = threads > 1024 ? 0 : 2048 / threads > 32 ? 32 : 2048 / threads;
  return kSuccess;
}

BERTH_CUDA cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                                int threads, std::size_t shared,
                                                                unsigned int) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

BERTH_CUDA cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction, void*, std::size_t,
                                            int limit) {
  ENTER(cuOccupancyMaxPotentialBlockSize, grid, block);
  if (grid == nullptr || block == nullptr) return kInvalidValue;
  *block = limit > 0 && limit < 1024 ? limit : 1024;
  *grid = 2 * 108;
  return kSuccess;
}
