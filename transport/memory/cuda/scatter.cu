// Copies tiles, a block each. Blocks take further tiles in turn where
// there are more of them than blocks.
#include "transport/memory/cuda/scatter_tile.h"

using onecopy::cuda::ScatterTile;

extern "C" __global__ void __launch_bounds__(onecopy::cuda::kScatterThreads)
    onecopy_scatter(const ScatterTile* tiles, uint32_t count) {
  // The list lies in host memory: it is read once for the block.
  __shared__ ScatterTile tile;
  for (uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    if (threadIdx.x < sizeof(ScatterTile) / sizeof(uint64_t)) {
      reinterpret_cast<uint64_t*>(&tile)[threadIdx.x] =
          reinterpret_cast<const uint64_t*>(tiles + i)[threadIdx.x];
    }
    __syncthreads();
    const ScatterTile mine = tile;  // in registers: no store can change it
    onecopy::cuda::ScatterOne(mine, threadIdx.x, blockDim.x);
    __syncthreads();
  }
}
