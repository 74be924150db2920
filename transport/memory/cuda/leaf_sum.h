// How a GPU computes xxh3-128 (XXH3's 128 bits, without a seed) of a leaf of 1 MiB: eight lanes, a
// thread each. For the GPU, and for a processor that plays the GPU in tests.
//
// Source: the specification of XXH3 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), for inputs of
// more than 240 bytes with the default secret.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define ONECOPY_ON_GPU __device__ __forceinline__
#define ONECOPY_UNROLL _Pragma("unroll")
#else
#define ONECOPY_ON_GPU inline
#define ONECOPY_UNROLL
#endif

namespace onecopy::cuda {

inline constexpr uint64_t kSummedLeafBytes = uint64_t{1} << 20;
inline constexpr uint32_t kSumLanes = 8;     // of a leaf
inline constexpr uint32_t kSumThreads = 32;  // of a block: four leaves
// The first leaf must begin at a multiple of this, as a lane loads 16 bytes at once.
inline constexpr uint64_t kSummedAlignment = 16;

// 16 bytes of a leaf, as two neighbouring lanes read them.
struct alignas(16) SumPair {
  uint64_t even;
  uint64_t odd;
};
// A leaf's checksum in canonical form: the most significant byte first.
struct alignas(16) SumDigest {
  uint8_t bytes[16];
};

// Numbers from XXH3's default secret, and what the lanes begin with.
struct SumSecret {
  uint64_t words[24];  // at byte 0, 8, 16, …
  uint64_t last[8];    // from byte 121: of the last stripe
  uint64_t low[8];     // from byte 11: of the lower half
  uint64_t high[8];    // from byte 117: of the upper half
  uint64_t begin[8];   // what the lanes begin with
};

inline constexpr SumSecret kSumSecret = {
    {0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
     0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
     0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
     0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
     0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
     0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af},
    {0xea647378d9c97e9f, 0xc5c3ebd33483acc5, 0x17eb6313faffa081, 0xd349daf0b751dd0d,
     0x2b9e68d429265516, 0x8ffca1477d58be16, 0x45ce31d07ad1b8f8, 0xaf280416958f3acb},
    {0x6dd4de1cad21f72c, 0xa44072db979083e9, 0xe679cb1f67b3b7a4, 0xd05a8278e5c0cc4e,
     0x4608b82172ffcc7d, 0x9035e08e2443f774, 0x52283c4c263a81e6, 0x65d088cb00c391bb},
    {0xd9c97e9fc83159b4, 0x3483acc5ea647378, 0xfaffa081c5c3ebd3, 0xb751dd0d17eb6313,
     0x29265516d349daf0, 0x7d58be162b9e68d4, 0x7ad1b8f88ffca147, 0x958f3acb45ce31d0},
    {0x00000000c2b2ae3d, 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9,
     0x85ebca77c2b2ae63, 0x0000000085ebca77, 0x27d4eb2f165667c5, 0x000000009e3779b1},
};

namespace leaf {

inline constexpr uint64_t kPrime32 = 0x9e3779b1;
inline constexpr uint64_t kPrime1 = 0x9e3779b185ebca87;
inline constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
inline constexpr uint64_t kMix = 0x165667919e3779f9;
inline constexpr uint32_t kStripes = 16;  // of a block, 64 bytes each
inline constexpr uint32_t kPairs = 4;     // of a stripe
inline constexpr uint32_t kBlocks = kSummedLeafBytes / (kStripes * 64);

// One stripe's part of a lane.
ONECOPY_ON_GPU uint64_t Add(uint64_t sum, uint64_t own, uint64_t others, uint64_t key) {
  const uint64_t mixed = own ^ key;
  return sum + others + (mixed & 0xffffffff) * (mixed >> 32);
}

// The exclusive or of a product's two halves.
ONECOPY_ON_GPU uint64_t Fold(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
  return (a * b) ^ __umul64hi(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#endif
}

ONECOPY_ON_GPU uint64_t Merge(const uint64_t* lanes, const uint64_t* keys, uint64_t begin) {
  uint64_t sum = begin;
  for (uint32_t i = 0; i < kSumLanes; i += 2) {
    sum += Fold(lanes[i] ^ keys[i], lanes[i + 1] ^ keys[i + 1]);
  }
  sum ^= sum >> 37;
  sum *= kMix;
  return sum ^ (sum >> 32);
}

ONECOPY_ON_GPU void Load(const SumPair* stripe, SumPair* pairs) {
  ONECOPY_UNROLL
  for (uint32_t i = 0; i < kStripes; ++i) pairs[i] = stripe[i * kPairs];
}

}  // namespace leaf

// What lane `lane` adds up over the leaf at `leaf`.
ONECOPY_ON_GPU uint64_t SumLane(const SumPair* leaf, uint32_t lane, const SumSecret& secret) {
  uint64_t keys[leaf::kStripes];
  ONECOPY_UNROLL
  for (uint32_t i = 0; i < leaf::kStripes; ++i) keys[i] = secret.words[i + lane];
  const uint64_t scramble = secret.words[leaf::kStripes + lane];
  const bool odd = (lane & 1) != 0;
  const SumPair* const column = leaf + lane / 2;
  uint64_t sum = secret.begin[lane];
  // The next block is on its way while this one is added.
  SumPair next[leaf::kStripes];
  leaf::Load(column, next);
  for (uint32_t block = 0; block < leaf::kBlocks; ++block) {
    SumPair now[leaf::kStripes];
    ONECOPY_UNROLL
    for (uint32_t i = 0; i < leaf::kStripes; ++i) now[i] = next[i];
    const bool more = block + 1 < leaf::kBlocks;
    if (more) leaf::Load(column + (block + 1) * leaf::kStripes * leaf::kPairs, next);
    ONECOPY_UNROLL
    for (uint32_t i = 0; i < leaf::kStripes; ++i) {
      const uint64_t own = odd ? now[i].odd : now[i].even;
      const uint64_t others = odd ? now[i].even : now[i].odd;
      // The very last stripe has its own key.
      const bool last = !more && i + 1 == leaf::kStripes;
      sum = leaf::Add(sum, own, others, last ? secret.last[lane] : keys[i]);
    }
    if (more) sum = ((sum ^ (sum >> 47)) ^ scramble) * leaf::kPrime32;
  }
  return sum;
}

// The checksum of a leaf, from its eight lanes.
ONECOPY_ON_GPU SumDigest MergeLanes(const uint64_t* lanes, const SumSecret& secret) {
  const uint64_t halves[2] = {leaf::Merge(lanes, secret.high, ~(kSummedLeafBytes * leaf::kPrime2)),
                              leaf::Merge(lanes, secret.low, kSummedLeafBytes * leaf::kPrime1)};
  SumDigest digest;
  for (uint32_t i = 0; i < 16; ++i) {
    digest.bytes[i] = static_cast<uint8_t>(halves[i / 8] >> (56 - 8 * (i % 8)));
  }
  return digest;
}

}  // namespace onecopy::cuda
