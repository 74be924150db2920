// Blocks of one length at regular distances, such as those of a paged KV cache, to be moved by
// their numbers.
//
//   auto cache = onecopy::BlockLayout::Make({{"", "keys", 0, 1 << 30}, {"", "values", 0, 1 << 30}},
//                                           {.block_bytes = 16384, .count = 65536});
//   auto other = onecopy::BlockLayout::Make({{"west", "keys", 0, …}, {"west", "values", 0, …}}, …);
//   auto request = onecopy::MoveBlocks(*cache, chosen, *other, free);
//   auto done = client->RunTransfer(*request);
#pragma once

#include "onecopy/language.h"  // first

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy {

// How blocks lie in one buffer, in bytes. Block i of layer k begins at
// offset + k * layer_stride + i * stride.
struct BlockShape {
  uint64_t block_bytes = 0;   // of a block; at least 1
  uint64_t count = 0;         // blocks of each layer; at least 1
  uint64_t offset = 0;        // of the first block, from where the buffer's range begins
  uint64_t stride = 0;        // from a block to the next one; 0: block_bytes
  uint64_t layers = 1;        // in this buffer; at least 1
  uint64_t layer_stride = 0;  // from a layer to the next one; 0: count * stride

  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

// Immutable. Made once and used for many requests: a use checks block numbers alone.
class BlockLayout {
 public:
  // Buffers of one node, all of one shape: a KV cache has one for each layer of its model, or one
  // for all layers. Each end says its length; one buffer may be there several times, with other
  // ranges. INVALID_ARGUMENT for a shape without bytes or an end without a length (BAD_SIZE), for
  // blocks that overlap (RANGES_OVERLAP), for files, several nodes, no or too many buffers
  // (BAD_ENDPOINT); OUT_OF_RANGE (RANGE_OUT_OF_BUFFER) for blocks outside their end.
  static Result<BlockLayout> Make(const std::vector<Endpoint>& ends, const BlockShape& shape);

  uint64_t block_bytes() const { return shape_.block_bytes; }
  uint64_t count() const { return shape_.count; }   // block numbers are below this
  size_t layers() const { return layers_.size(); }  // of all buffers together
  // Each once, without a range. The first is a request's source or destination, the others are its
  // `more_sources` or `more_destinations`.
  const std::vector<Endpoint>& buffers() const { return buffers_; }

 private:
  friend Result<EqualRanges> RangesOf(const BlockLayout&, std::span<const uint64_t>,
                                      const BlockLayout&, std::span<const uint64_t>);

  struct Layer {
    uint32_t buffer;
    uint64_t offset;  // of block 0
  };

  BlockLayout() = default;

  BlockShape shape_;  // stride and layer_stride are not 0
  std::vector<Endpoint> buffers_;
  std::vector<Layer> layers_;
};

// What moves when, in every layer, block source_blocks[i] of `source` goes to block blocks[i] of
// `destination`; layer k goes to layer k. INVALID_ARGUMENT for layouts of unlike layers or blocks,
// or for lists of unlike lengths (SIZE_MISMATCH), for empty ones (BAD_SIZE), and for more than
// kMaxRanges blocks of all layers (BAD_ARGUMENT); OUT_OF_RANGE (RANGE_OUT_OF_BUFFER) for a number
// that is not below `count`. The daemon refuses a block that is written twice (RANGES_OVERLAP).
Result<EqualRanges> RangesOf(const BlockLayout& source, std::span<const uint64_t> source_blocks,
                             const BlockLayout& destination, std::span<const uint64_t> blocks);

// The same as a request, for any call that takes one. Fails as RangesOf does.
Result<TransferRequest> MoveBlocks(const BlockLayout& source,
                                   std::span<const uint64_t> source_blocks,
                                   const BlockLayout& destination,
                                   std::span<const uint64_t> blocks);

}  // namespace onecopy
