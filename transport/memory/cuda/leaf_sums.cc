#include "transport/memory/cuda/leaf_sums.h"

#include <array>

#include "transport/memory/cuda/gpu.h"

// Made from leaf_sum.cu: see CMakeLists.txt.
extern "C" const unsigned char* const onecopy_leaf_sum_image;

namespace onecopy::cuda {

const unsigned char* LeafSumImage() { return onecopy_leaf_sum_image; }

LeafSums::LeafSums(Gpu& gpu)
    : gpu_(gpu), kernel_(gpu, gpu.options().leaf_sum_image, "onecopy_sum_leaves") {}

LeafSums::~LeafSums() {
  for (SumDigest* const sums : all_) gpu_.api().MemFreeHost(sums);
}

CUresult LeafSums::Take(SumDigest** sums) {
  if (!idle_.empty()) {
    *sums = idle_.back();
    idle_.pop_back();
    return CUDA_SUCCESS;
  }
  void* memory = nullptr;
  const CUresult error =
      gpu_.api().MemHostAlloc(&memory, kMostLeaves * sizeof(SumDigest), CU_MEMHOSTALLOC_DEVICEMAP);
  if (error != CUDA_SUCCESS) return error;
  *sums = static_cast<SumDigest*>(memory);
  all_.push_back(*sums);
  return CUDA_SUCCESS;
}

CUresult LeafSums::Launch(CUdeviceptr first, uint32_t leaves, SumDigest* sums, CUstream stream) {
  // With one address for host and device, as everywhere where a kernel is 64-bit.
  std::array<void*, 3> parameters = {static_cast<void*>(&first), static_cast<void*>(&leaves),
                                     static_cast<void*>(&sums)};
  constexpr uint32_t kLeavesOfBlock = kSumThreads / kSumLanes;
  const unsigned blocks = (leaves + kLeavesOfBlock - 1) / kLeavesOfBlock;
  return gpu_.api().LaunchKernel(kernel_.Get(), blocks, 1, 1, kSumThreads, 1, 1, 0, stream,
                                 parameters.data(), nullptr);
}

}  // namespace onecopy::cuda
