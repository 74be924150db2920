// xxh3-128-tree: a checksum that also says where two payloads differ.
//
// A payload's bytes, in their order and without gaps, are cut into leaves of 1 MiB, the last one
// shorter. The checksum is xxh3-128 of the leaves' own checksums of that kind, one after the other,
// each of 16 bytes in XXH3's canonical (big-endian) form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/range.h"
#include "transport/digest/hasher.h"

namespace onecopy::digest {

inline constexpr char kTreeAlgorithm[] = "xxh3-128-tree";
inline constexpr uint64_t kLeafBytes = uint64_t{1} << 20;
// So that those of a payload of any length fit into one message.
inline constexpr uint64_t kMostBlockSums = 32768;

// Of the blocks of a payload: as many whole leaves each, the last one of what is left.
struct BlockSums {
  uint64_t block_bytes = 0;
  std::string sums;  // kDigestBytes each: the checksum of the checksums of the block's leaves
};

struct TreeSum {
  std::string root;  // in hexadecimal; empty: not known
  BlockSums blocks;
};

// How long the blocks of such a payload are: the fewest leaves with which there are not too many.
uint64_t BlockBytes(uint64_t payload);

// The blocks that differ, of a payload of that length, neighbours as one. Empty if the sums are not
// those of such blocks: another daemon says what it likes.
std::vector<ByteRange> DifferingBlocks(const BlockSums& one, const BlockSums& other,
                                       uint64_t payload);

// Of bytes that come in pieces. One thread at a time.
class TreeHasher {
 public:
  // `payload`: how many bytes there will be, for the length of the blocks.
  explicit TreeHasher(uint64_t payload);

  void Add(const void* data, uint64_t bytes);
  // Adds the next leaf by its checksum. What was added before must be whole leaves.
  void AddLeaf(const DigestBytes& digest);
  // Once, after all was added.
  TreeSum Take();

 private:
  void EndLeaf();
  void NoteLeaf(const void* digest);
  void EndBlock();

  const uint64_t block_leaves_;
  Hasher leaf_;
  uint64_t in_leaf_ = 0;
  Hasher block_;
  uint64_t in_block_ = 0;  // leaves
  Hasher root_;
  TreeSum sum_;
};

// The root of one piece.
std::string TreeHexOf(const void* data, uint64_t bytes);
// The root of one piece of 1 to kLeafBytes bytes. Allocates nothing.
DigestBytes LeafRootOf(const void* data, uint64_t bytes);

}  // namespace onecopy::digest
