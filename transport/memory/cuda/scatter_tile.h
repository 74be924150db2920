// What the scatter kernel copies, and how one thread of a block does its part. For the GPU, and for
// a processor that plays the GPU in tests.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define ONECOPY_DEVICE __device__ __forceinline__
#define ONECOPY_ALIAS
#else
#define ONECOPY_DEVICE inline
#define ONECOPY_ALIAS [[gnu::may_alias]]
#endif

namespace onecopy::cuda {

inline constexpr uint32_t kScatterThreads = 256;  // of a block

// One block's work: `count` elements of `bytes` bytes. Addresses that the GPU reaches; the strides
// count where there are several elements.
struct ScatterTile {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t from_stride = 0;
  uint64_t to_stride = 0;
  uint32_t bytes = 0;
  uint32_t count = 0;
};

// What is loaded and stored at once, whatever the bytes are to others.
struct alignas(16) ONECOPY_ALIAS ScatterVector {
  uint32_t a, b, c, d;
};
template <typename Number>
struct ONECOPY_ALIAS ScatterWord {
  Number value;
};

template <typename Word>
ONECOPY_DEVICE Word ScatterLoad(uint64_t address) {
  return *reinterpret_cast<const Word*>(address);
}
template <typename Word>
ONECOPY_DEVICE void ScatterStore(uint64_t address, Word word) {
  *reinterpret_cast<Word*>(address) = word;
}

// Words `thread`, `thread + threads` and so on of `total`, where `load` and `store` find them by
// number. Four loads are under way at a time: the compiler cannot know that no store changes what
// is loaded.
template <typename Load, typename Store>
ONECOPY_DEVICE void ScatterEach(uint32_t total, uint32_t thread, uint32_t threads, Load load,
                                Store store) {
  uint32_t i = thread;
  for (; i + 3 * threads < total; i += 4 * threads) {
    const auto a = load(i);
    const auto b = load(i + threads);
    const auto c = load(i + 2 * threads);
    const auto d = load(i + 3 * threads);
    store(i, a);
    store(i + threads, b);
    store(i + 2 * threads, c);
    store(i + 3 * threads, d);
  }
  for (; i < total; i += threads) store(i, load(i));
}

// All addresses, strides and sizes are multiples of the word's size.
template <typename Word>
ONECOPY_DEVICE void ScatterElements(const ScatterTile& tile, uint32_t thread, uint32_t threads) {
  const uint32_t words = tile.bytes / static_cast<uint32_t>(sizeof(Word));
  if (words == 1) {
    ScatterEach(
        tile.count, thread, threads,
        [&](uint32_t i) { return ScatterLoad<Word>(tile.from + i * tile.from_stride); },
        [&](uint32_t i, Word word) { ScatterStore(tile.to + i * tile.to_stride, word); });
    return;
  }
  ScatterEach(
      words * tile.count, thread, threads,
      [&](uint32_t i) {
        const uint32_t element = i / words;
        const uint32_t word = i - element * words;
        return ScatterLoad<Word>(tile.from + element * tile.from_stride + word * sizeof(Word));
      },
      [&](uint32_t i, Word value) {
        const uint32_t element = i / words;
        const uint32_t word = i - element * words;
        ScatterStore(tile.to + element * tile.to_stride + word * sizeof(Word), value);
      });
}

ONECOPY_DEVICE void ScatterBytes(uint64_t from, uint64_t to, uint32_t bytes, uint32_t thread,
                                 uint32_t threads) {
  for (uint32_t i = thread; i < bytes; i += threads) {
    ScatterStore(to + i, ScatterLoad<ScatterWord<uint8_t>>(from + i));
  }
}

// One vector from an address that is a multiple of nothing: the aligned words around it, shifted.
// Reads up to three bytes on either side of it.
ONECOPY_DEVICE ScatterVector ScatterLoadShifted(uint64_t from) {
  const uint32_t shift = static_cast<uint32_t>(from & 3) * 8;
  const uint64_t word = from & ~uint64_t{3};
  uint32_t w[5];
  for (uint32_t k = 0; k < 4; ++k) w[k] = ScatterLoad<ScatterWord<uint32_t>>(word + 4 * k).value;
  if (shift == 0) return {w[0], w[1], w[2], w[3]};
  w[4] = ScatterLoad<ScatterWord<uint32_t>>(word + 16).value;
  uint32_t out[4];
  for (uint32_t k = 0; k < 4; ++k) out[k] = (w[k] >> shift) | (w[k + 1] << (32 - shift));
  return {out[0], out[1], out[2], out[3]};
}

// Stores are whole aligned vectors except for the ends, whatever the source's alignment.
ONECOPY_DEVICE void ScatterRange(uint64_t from, uint64_t to, uint32_t bytes, uint32_t thread,
                                 uint32_t threads) {
  uint32_t head = static_cast<uint32_t>(-to & 15);
  uint32_t keep = 0;  // of the end, for single bytes
  const bool shifted = ((from + head) & 15) != 0;
  if (shifted) {
    // What is read around a vector must be inside the range.
    if (head < 4) head += 16;
    keep = 4;
  }
  if (bytes < head + keep + 16) return ScatterBytes(from, to, bytes, thread, threads);
  const uint32_t vectors = (bytes - head - keep) / 16;
  const uint64_t source = from + head;
  const uint64_t target = to + head;
  const auto store = [&](uint32_t i, ScatterVector vector) {
    ScatterStore(target + uint64_t{i} * 16, vector);
  };
  if (shifted) {
    ScatterEach(
        vectors, thread, threads,
        [&](uint32_t i) { return ScatterLoadShifted(source + uint64_t{i} * 16); }, store);
  } else {
    ScatterEach(
        vectors, thread, threads,
        [&](uint32_t i) { return ScatterLoad<ScatterVector>(source + uint64_t{i} * 16); }, store);
  }
  ScatterBytes(from, to, head, thread, threads);
  const uint32_t done = head + vectors * 16;
  ScatterBytes(from + done, to + done, bytes - done, thread, threads);
}

ONECOPY_DEVICE void ScatterOne(const ScatterTile& tile, uint32_t thread, uint32_t threads) {
  if (tile.count == 1) return ScatterRange(tile.from, tile.to, tile.bytes, thread, threads);
  const uint64_t all = tile.from | tile.to | tile.from_stride | tile.to_stride | tile.bytes;
  if ((all & 15) == 0) return ScatterElements<ScatterVector>(tile, thread, threads);
  if ((all & 7) == 0) return ScatterElements<ScatterWord<uint64_t>>(tile, thread, threads);
  if ((all & 3) == 0) return ScatterElements<ScatterWord<uint32_t>>(tile, thread, threads);
  if ((all & 1) == 0) return ScatterElements<ScatterWord<uint16_t>>(tile, thread, threads);
  ScatterElements<ScatterWord<uint8_t>>(tile, thread, threads);
}

}  // namespace onecopy::cuda
