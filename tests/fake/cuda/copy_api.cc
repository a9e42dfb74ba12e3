// Entry points that copy and fill.
#include "fake/cuda/array.h"
#include "fake/cuda/copy.h"
#include "fake/cuda/graph.h"

using namespace berth::fake::cuda;  // NOLINT(google-build-using-namespace): entry points are global

namespace {

const unsigned char* bytes_of(const void* memory) {
  return static_cast<const unsigned char*>(memory);
}
unsigned char* bytes_of(void* memory) { return static_cast<unsigned char*>(memory); }

// An asynchronous copy happens at once, unless the stream is capturing: then it becomes a node.
template <class Do>
CUresult on_stream(CUstream handle, bool per_thread, NodeType type, Do deed) {
  BERTH_RESOLVE(handle, per_thread, stream);
  if (stream->capture != nullptr) return capture_plain(*stream, type, 0);
  return deed();
}

// A copy that returns when it is done waits for the work before it.
template <class Do>
CUresult synchronously(bool per_thread, Do deed) {
  BERTH_RESOLVE(nullptr, per_thread, stream);
  if (const std::uint64_t when = idle_at(*stream); when != 0) sleep_until_idle(when);
  return deed();
}

CUresult host_to_device(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy_linear(device_memory(to, bytes, true), bytes_of(from), bytes);
}
CUresult device_to_host(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy_linear(bytes_of(to), device_memory(from, bytes, false), bytes);
}
CUresult device_to_device(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_linear(device_memory(to, bytes, true), device_memory(from, bytes, false), bytes);
}
CUresult unified(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_linear(any_memory(to, bytes, true), any_memory(from, bytes, false), bytes);
}

// A copy between a row of an array and memory: `array_is_target` says which way.
CUresult array_row(Array* array, std::size_t offset, int type, const void* host, CUdeviceptr device,
                   std::size_t bytes, bool array_is_target) {
  Copy3d copy{};
  copy.width = bytes;
  copy.height = 1;
  copy.depth = 1;
  if (array_is_target) {
    copy.target_type = 3;
    copy.target_array = array;
    copy.target_x = offset;
    copy.source_type = type;
    copy.source_host = host;
    copy.source_device = device;
  } else {
    copy.source_type = 3;
    copy.source_array = array;
    copy.source_x = offset;
    copy.target_type = type;
    copy.target_host = const_cast<void*>(host);
    copy.target_device = device;
  }
  return copy_shape(copy);
}

}  // namespace

// A synchronous form and its per-thread twin.
#define BERTH_COPY(name, suffix, params, arguments, deed)                      \
  BERTH_CUDA name params {                                                     \
    ENTER(name);                                                               \
    return synchronously(false, [&]() -> CUresult { return deed arguments; }); \
  }                                                                            \
  BERTH_CUDA name##_##suffix params {                                          \
    ENTER(name##_##suffix);                                                    \
    return synchronously(true, [&]() -> CUresult { return deed arguments; });  \
  }
// An asynchronous form and its per-thread twin; `params` end with the stream.
#define BERTH_COPY_ASYNC(name, type, params, arguments, deed)                            \
  BERTH_CUDA name params {                                                               \
    ENTER(name);                                                                         \
    return on_stream(stream, false, type, [&]() -> CUresult { return deed arguments; }); \
  }                                                                                      \
  BERTH_CUDA name##_ptsz params {                                                        \
    ENTER(name##_ptsz);                                                                  \
    return on_stream(stream, true, type, [&]() -> CUresult { return deed arguments; });  \
  }

BERTH_COPY(cuMemcpy, ptds, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes), (to, from, bytes),
           unified)
BERTH_COPY(cuMemcpyHtoD_v2, ptds, (CUdeviceptr to, const void* from, std::size_t bytes),
           (to, from, bytes), host_to_device)
BERTH_COPY(cuMemcpyDtoH_v2, ptds, (void* to, CUdeviceptr from, std::size_t bytes),
           (to, from, bytes), device_to_host)
BERTH_COPY(cuMemcpyDtoD_v2, ptds, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes),
           (to, from, bytes), device_to_device)
BERTH_COPY(cuMemcpyPeer, ptds,
           (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t bytes),
           (to, from, bytes), unified)
BERTH_COPY_ASYNC(cuMemcpyAsync, NodeType::memcpy,
                 (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
                 (to, from, bytes), unified)
BERTH_COPY_ASYNC(cuMemcpyHtoDAsync_v2, NodeType::memcpy,
                 (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream),
                 (to, from, bytes), host_to_device)
BERTH_COPY_ASYNC(cuMemcpyDtoHAsync_v2, NodeType::memcpy,
                 (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream),
                 (to, from, bytes), device_to_host)
BERTH_COPY_ASYNC(cuMemcpyDtoDAsync_v2, NodeType::memcpy,
                 (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
                 (to, from, bytes), device_to_device)
BERTH_COPY_ASYNC(cuMemcpyPeerAsync, NodeType::memcpy,
                 (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t bytes,
                  CUstream stream),
                 (to, from, bytes), unified)

namespace {

CUresult shaped(const Copy2d* copy) {
  return copy == nullptr ? kInvalidValue : copy_shape(widened(*copy));
}
CUresult shaped(const Copy3d* copy) { return copy == nullptr ? kInvalidValue : copy_shape(*copy); }

}  // namespace

BERTH_COPY(cuMemcpy2D_v2, ptds, (const Copy2d* copy), (copy), shaped)
BERTH_COPY(cuMemcpy2DUnaligned_v2, ptds, (const Copy2d* copy), (copy), shaped)
BERTH_COPY(cuMemcpy3D_v2, ptds, (const Copy3d* copy), (copy), shaped)
BERTH_COPY(cuMemcpy3DPeer, ptds, (const Copy3d* copy), (copy), shaped)
BERTH_COPY_ASYNC(cuMemcpy2DAsync_v2, NodeType::memcpy, (const Copy2d* copy, CUstream stream),
                 (copy), shaped)
BERTH_COPY_ASYNC(cuMemcpy3DAsync_v2, NodeType::memcpy, (const Copy3d* copy, CUstream stream),
                 (copy), shaped)
BERTH_COPY_ASYNC(cuMemcpy3DPeerAsync, NodeType::memcpy, (const Copy3d* copy, CUstream stream),
                 (copy), shaped)

BERTH_COPY(cuMemcpyHtoA_v2, ptds,
           (CUarray to, std::size_t offset, const void* from, std::size_t bytes),
           (to, offset, 1, from, 0, bytes, true), array_row)
BERTH_COPY(cuMemcpyAtoH_v2, ptds, (void* to, CUarray from, std::size_t offset, std::size_t bytes),
           (from, offset, 1, to, 0, bytes, false), array_row)
BERTH_COPY(cuMemcpyDtoA_v2, ptds,
           (CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes),
           (to, offset, 2, nullptr, from, bytes, true), array_row)
BERTH_COPY(cuMemcpyAtoD_v2, ptds,
           (CUdeviceptr to, CUarray from, std::size_t offset, std::size_t bytes),
           (from, offset, 2, nullptr, to, bytes, false), array_row)
BERTH_COPY_ASYNC(cuMemcpyHtoAAsync_v2, NodeType::memcpy,
                 (CUarray to, std::size_t offset, const void* from, std::size_t bytes,
                  CUstream stream),
                 (to, offset, 1, from, 0, bytes, true), array_row)
BERTH_COPY_ASYNC(cuMemcpyAtoHAsync_v2, NodeType::memcpy,
                 (void* to, CUarray from, std::size_t offset, std::size_t bytes, CUstream stream),
                 (from, offset, 1, to, 0, bytes, false), array_row)

BERTH_COPY(cuMemsetD8_v2, ptds, (CUdeviceptr to, unsigned char value, std::size_t count),
           (to, 0, value, 1, count, 1), fill)
BERTH_COPY(cuMemsetD16_v2, ptds, (CUdeviceptr to, unsigned short value, std::size_t count),
           (to, 0, value, 2, count, 1), fill)
BERTH_COPY(cuMemsetD32_v2, ptds, (CUdeviceptr to, unsigned int value, std::size_t count),
           (to, 0, value, 4, count, 1), fill)
BERTH_COPY(cuMemsetD2D8_v2, ptds,
           (CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
            std::size_t height),
           (to, pitch, value, 1, width, height), fill)
BERTH_COPY(cuMemsetD2D16_v2, ptds,
           (CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width,
            std::size_t height),
           (to, pitch, value, 2, width, height), fill)
BERTH_COPY(cuMemsetD2D32_v2, ptds,
           (CUdeviceptr to, std::size_t pitch, unsigned int value, std::size_t width,
            std::size_t height),
           (to, pitch, value, 4, width, height), fill)
BERTH_COPY_ASYNC(cuMemsetD8Async, NodeType::memset,
                 (CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream),
                 (to, 0, value, 1, count, 1), fill)
BERTH_COPY_ASYNC(cuMemsetD16Async, NodeType::memset,
                 (CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream),
                 (to, 0, value, 2, count, 1), fill)
BERTH_COPY_ASYNC(cuMemsetD32Async, NodeType::memset,
                 (CUdeviceptr to, unsigned int value, std::size_t count, CUstream stream),
                 (to, 0, value, 4, count, 1), fill)
BERTH_COPY_ASYNC(cuMemsetD2D8Async, NodeType::memset,
                 (CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
                  std::size_t height, CUstream stream),
                 (to, pitch, value, 1, width, height), fill)
BERTH_COPY_ASYNC(cuMemsetD2D16Async, NodeType::memset,
                 (CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width,
                  std::size_t height, CUstream stream),
                 (to, pitch, value, 2, width, height), fill)
BERTH_COPY_ASYNC(cuMemsetD2D32Async, NodeType::memset,
                 (CUdeviceptr to, std::size_t pitch, unsigned int value, std::size_t width,
                  std::size_t height, CUstream stream),
                 (to, pitch, value, 4, width, height), fill)

// The oldest forms, with 32-bit addresses.
BERTH_CUDA cuMemcpyHtoD(CUdeviceptr_v1 to, const void* from, unsigned int bytes) {
  return cuMemcpyHtoD_v2(to, from, bytes);
}
BERTH_CUDA cuMemcpyDtoH(void* to, CUdeviceptr_v1 from, unsigned int bytes) {
  return cuMemcpyDtoH_v2(to, from, bytes);
}
BERTH_CUDA cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes) {
  return cuMemcpyDtoD_v2(to, from, bytes);
}
BERTH_CUDA cuMemsetD8(CUdeviceptr_v1 to, unsigned char value, unsigned int count) {
  return cuMemsetD8_v2(to, value, count);
}
BERTH_CUDA cuMemsetD32(CUdeviceptr_v1 to, unsigned int value, unsigned int count) {
  return cuMemsetD32_v2(to, value, count);
}
