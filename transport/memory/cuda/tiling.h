// Cuts copies into tiles for the scatter kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/core/scatter.h"
#include "transport/memory/cuda/scatter_tile.h"

namespace onecopy::cuda {

// Of copies between addresses. Tiles are of like size, so that no block works much longer than
// others.
std::vector<ScatterTile> TilesOf(std::span<const StridedCopy> copies);

// What a copy engine moves while it begins the next piece.
inline constexpr uint64_t kPieceOverPcie = 256 << 10;
inline constexpr uint64_t kPieceBetweenGpus = 4 << 20;

// Whether the kernel is better at these copies than copy engines, which take microseconds for each
// piece: `over_pcie` where one side is host memory.
bool WantsKernel(std::span<const StridedCopy> copies, bool over_pcie);

}  // namespace onecopy::cuda
