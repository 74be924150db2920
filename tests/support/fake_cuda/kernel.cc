// The kernels on the fake driver: their own code, thread by thread, on a processor. Copies in
// two dimensions, and pinned memory of the driver's.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/support/fake_cuda/state.h"
#include "transport/memory/cuda/leaf_sum.h"
#include "transport/memory/cuda/scatter_tile.h"

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::TheState;
using onecopy::cuda::ScatterTile;

namespace {

constexpr uint32_t kFatbinMagic = 0xba55ed50;
constexpr char kScatter[] = "onecopy_scatter";
constexpr char kSum[] = "onecopy_sum_leaves";
constexpr size_t kPage = 4096;
int g_module = 0;   // what a module is, as far as its user sees
int g_scatter = 0;  // likewise
int g_sum = 0;

// From the first byte to the last one.
size_t Extent(size_t bytes, size_t stride, size_t count) {
  return count == 1 ? bytes : (count - 1) * stride + bytes;
}

bool IsReached(const Context& context, const ScatterTile& tile) {
  return fake_cuda::Reaches(context, tile.from, Extent(tile.bytes, tile.from_stride, tile.count)) &&
         fake_cuda::Reaches(context, tile.to, Extent(tile.bytes, tile.to_stride, tile.count));
}

CUresult LaunchSum(const Context& context, unsigned blocks, unsigned threads, CUstream stream,
                   void** parameters) {
  namespace cuda = onecopy::cuda;
  const auto* const first = *static_cast<const cuda::SumPair* const*>(parameters[0]);
  const uint32_t leaves = *static_cast<const uint32_t*>(parameters[1]);
  auto* const sums = *static_cast<cuda::SumDigest* const*>(parameters[2]);
  if (uint64_t{blocks} * threads < uint64_t{leaves} * cuda::kSumLanes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  {
    const std::lock_guard lock(TheState().mutex);
    const bool reached = fake_cuda::Reaches(context, reinterpret_cast<uintptr_t>(first),
                                            leaves * cuda::kSummedLeafBytes);
    if (!reached || !fake_cuda::IsPinned(sums, leaves * sizeof *sums)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  fake_cuda::Submit(stream, [=] {
    for (uint32_t leaf = 0; leaf < leaves; ++leaf) {
      const auto* const at = first + leaf * (cuda::kSummedLeafBytes / sizeof *first);
      uint64_t lanes[cuda::kSumLanes];
      for (uint32_t lane = 0; lane < cuda::kSumLanes; ++lane) {
        lanes[lane] = cuda::SumLane(at, lane, cuda::kSumSecret);
      }
      sums[leaf] = cuda::MergeLanes(lanes, cuda::kSumSecret);
    }
  });
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != kFatbinMagic) return CUDA_ERROR_INVALID_IMAGE;
  if (std::getenv("FAKE_CUDA_NO_KERNEL") != nullptr) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *module = reinterpret_cast<CUmodule>(&g_module);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  int* const known = std::strcmp(name, kScatter) == 0 ? &g_scatter
                     : std::strcmp(name, kSum) == 0   ? &g_sum
                                                      : nullptr;
  if (known == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(known);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads,
                        unsigned, unsigned, unsigned, CUstream stream, void** parameters, void**) {
  const Context* const context = Current();
  if (!fake_cuda::IsCurrent(stream)) return CUDA_ERROR_INVALID_CONTEXT;
  if (blocks == 0) return CUDA_ERROR_INVALID_VALUE;
  if (function == reinterpret_cast<CUfunction>(&g_sum)) {
    return LaunchSum(*context, blocks, threads, stream, parameters);
  }
  if (function != reinterpret_cast<CUfunction>(&g_scatter)) return CUDA_ERROR_INVALID_VALUE;
  const auto* const tiles = *static_cast<const ScatterTile* const*>(parameters[0]);
  const uint32_t count = *static_cast<const uint32_t*>(parameters[1]);
  {
    // A real GPU would only find out when it runs.
    const std::lock_guard lock(TheState().mutex);
    if (!fake_cuda::IsPinned(tiles, count * sizeof(ScatterTile))) return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < count; ++i) {
      if (!IsReached(*context, tiles[i])) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  fake_cuda::Submit(stream, [=] {
    for (unsigned block = 0; block < blocks; ++block) {
      for (uint32_t i = block; i < count; i += blocks) {
        for (unsigned thread = 0; thread < threads; ++thread) {
          onecopy::cuda::ScatterOne(tiles[i], thread, threads);
        }
      }
    }
  });
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  const std::lock_guard lock(TheState().mutex);
  context->pins[*memory] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* memory) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    const std::lock_guard lock(TheState().mutex);
    if (context->pins.erase(memory) == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  std::free(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  const Context* const context = Current();
  if (!fake_cuda::IsCurrent(stream)) return CUDA_ERROR_INVALID_CONTEXT;
  const bool from_host = copy->srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_host = copy->dstMemoryType == CU_MEMORYTYPE_HOST;
  const auto from = from_host ? reinterpret_cast<uintptr_t>(copy->srcHost) : copy->srcDevice;
  const auto to = to_host ? reinterpret_cast<uintptr_t>(copy->dstHost) : copy->dstDevice;
  if (copy->srcPitch < copy->WidthInBytes || copy->dstPitch < copy->WidthInBytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  {
    const std::lock_guard lock(TheState().mutex);
    const bool reached =
        fake_cuda::Reaches(*context, from,
                           Extent(copy->WidthInBytes, copy->srcPitch, copy->Height)) &&
        fake_cuda::Reaches(*context, to, Extent(copy->WidthInBytes, copy->dstPitch, copy->Height));
    if (!reached) return CUDA_ERROR_INVALID_VALUE;
  }
  fake_cuda::Submit(stream, [=, copy = *copy] {
    for (size_t row = 0; row < copy.Height; ++row) {
      std::memmove(reinterpret_cast<void*>(to + row * copy.dstPitch),
                   reinterpret_cast<const void*>(from + row * copy.srcPitch), copy.WidthInBytes);
    }
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
