#include "transport/memory/cuda/tiling.h"

#include <algorithm>

namespace onecopy::cuda {
namespace {

constexpr uint64_t kMinTile = 4 << 10;
constexpr uint64_t kMaxTile = 64 << 10;
// So many tiles keep every large GPU busy.
constexpr uint64_t kTiles = 1024;
// An element as long as this has work for all threads of a block.
constexpr uint64_t kLongElement = 2 << 10;
// One of such a length, at an odd address, is quicker by shifted vectors than byte by byte.
constexpr uint64_t kOddElement = 128;
// Of copy engines, on two H200s.
constexpr std::chrono::nanoseconds kEngineCopy{2600};
constexpr std::chrono::nanoseconds kEngineRow{1};

void CutRange(uint64_t from, uint64_t to, uint64_t bytes, uint64_t tile_bytes,
              std::vector<ScatterTile>* tiles) {
  for (uint64_t at = 0; at < bytes; at += tile_bytes) {
    const auto length = static_cast<uint32_t>(std::min(tile_bytes, bytes - at));
    tiles->push_back({from + at, to + at, 0, 0, length, 1});
  }
}

void CutElements(const StridedCopy& copy, uint64_t tile_bytes, std::vector<ScatterTile>* tiles) {
  const uint64_t together = tile_bytes / copy.bytes;
  for (uint64_t at = 0; at < copy.count; at += together) {
    tiles->push_back({copy.from + at * copy.from_stride, copy.to + at * copy.to_stride,
                      copy.from_stride, copy.to_stride, static_cast<uint32_t>(copy.bytes),
                      static_cast<uint32_t>(std::min(together, copy.count - at))});
  }
}

uint64_t TileBytesFor(uint64_t payload) {
  const uint64_t even = (payload / kTiles + kMinTile - 1) / kMinTile * kMinTile;
  return std::clamp(even, kMinTile, kMaxTile);
}

}  // namespace

void CutEqual(uintptr_t from, uintptr_t to, std::span<const CopyPiece> pieces, uint64_t bytes,
              std::vector<ScatterTile>* tiles) {
  tiles->clear();
  const uint64_t tile_bytes = TileBytesFor(pieces.size() * bytes);
  for (const CopyPiece& piece : pieces) {
    CutRange(from + piece.from, to + piece.to, bytes, tile_bytes, tiles);
  }
}

std::vector<ScatterTile> TilesOf(std::span<const StridedCopy> copies) {
  const uint64_t tile_bytes = TileBytesFor(PayloadOf(copies));
  std::vector<ScatterTile> tiles;
  tiles.reserve(std::max<size_t>(copies.size(), kTiles));
  for (const StridedCopy& copy : copies) {
    const uint64_t all = copy.from | copy.to | copy.from_stride | copy.to_stride | copy.bytes;
    const bool odd = copy.bytes >= kOddElement && (all & 3) != 0;
    if (copy.count > 1 && copy.bytes < kLongElement && !odd) {
      CutElements(copy, tile_bytes, &tiles);
      continue;
    }
    for (uint64_t i = 0; i < copy.count; ++i) {
      CutRange(copy.from + i * copy.from_stride, copy.to + i * copy.to_stride, copy.bytes,
               tile_bytes, &tiles);
    }
  }
  return tiles;
}

bool WantsKernel(std::span<const StridedCopy> copies, bool over_pcie) {
  if (copies.size() == 1 && copies[0].count == 1) return false;
  uint64_t pieces = 0;
  for (const StridedCopy& copy : copies) pieces += copy.count;
  return PayloadOf(copies) / pieces < (over_pcie ? kPieceOverPcie : kPieceBetweenGpus);
}

std::chrono::nanoseconds EngineTime(std::span<const StridedCopy> copies) {
  std::chrono::nanoseconds time{0};
  for (const StridedCopy& copy : copies) {
    const bool as_one = copy.from_stride <= kMaxPitch && copy.to_stride <= kMaxPitch;
    const auto count = static_cast<int64_t>(copy.count);
    time += as_one ? kEngineCopy + count * kEngineRow : count * kEngineCopy;
  }
  return time;
}

}  // namespace onecopy::cuda
