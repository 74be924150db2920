// Sums leaves of 1 MiB, eight threads each: see leaf_sum.h.
#include "transport/memory/cuda/leaf_sum.h"

using onecopy::cuda::kSumLanes;
using onecopy::cuda::kSumThreads;
using onecopy::cuda::SumDigest;
using onecopy::cuda::SumPair;
using onecopy::cuda::SumSecret;

__constant__ SumSecret secret = onecopy::cuda::kSumSecret;

extern "C" __global__ void __launch_bounds__(kSumThreads)
    onecopy_sum_leaves(const SumPair* first, uint32_t count, SumDigest* sums) {
  __shared__ uint64_t lanes[kSumThreads];
  const uint32_t lane = threadIdx.x % kSumLanes;
  const uint32_t leaf = blockIdx.x * (kSumThreads / kSumLanes) + threadIdx.x / kSumLanes;
  if (leaf < count) {
    constexpr uint64_t kPairs = onecopy::cuda::kSummedLeafBytes / sizeof(SumPair);
    lanes[threadIdx.x] = onecopy::cuda::SumLane(first + leaf * kPairs, lane, secret);
  }
  __syncwarp();
  if (leaf < count && lane == 0) {
    sums[leaf] = onecopy::cuda::MergeLanes(&lanes[threadIdx.x], secret);
  }
}
