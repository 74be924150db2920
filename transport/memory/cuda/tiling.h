// Cuts copies into tiles for the scatter kernel.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/core/contracts/small_copy_route.h"
#include "transport/core/ranges/scatter.h"
#include "transport/memory/cuda/scatter_tile.h"

namespace onecopy::cuda {

// Of copies between addresses. Tiles are of like size, so that no block works much longer than
// others.
std::vector<ScatterTile> TilesOf(std::span<const StridedCopy> copies);

// What a copy engine moves while it begins the next piece.
inline constexpr uint64_t kPieceOverPcie = 256 << 10;
inline constexpr uint64_t kPieceBetweenGpus = 4 << 20;

// Likewise, of pieces of `bytes` bytes each, whose offsets count from `from` and `to`; in place of
// what `tiles` had. At most kTiles of them, and one more for each piece.
void CutEqual(uintptr_t from, uintptr_t to, std::span<const CopyPiece> pieces, uint64_t bytes,
              std::vector<ScatterTile>* tiles);

// Whether the kernel is better at these copies than copy engines, which take microseconds for each
// piece: `over_pcie` where one side is host memory.
bool WantsKernel(std::span<const StridedCopy> copies, bool over_pcie);

// What copy engines take for the pieces, apart from the bytes, which take the kernel as long.
std::chrono::nanoseconds EngineTime(std::span<const StridedCopy> copies);

// The longest stride of a copy that copy engines make as one, of all its elements.
inline constexpr uint64_t kMaxPitch = 0x7fffffff;

}  // namespace onecopy::cuda
