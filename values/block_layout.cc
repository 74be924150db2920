#include "onecopy/block_layout.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

__extension__ using Wide = unsigned __int128;  // what two 64-bit numbers multiply to

Status Refuse(std::string_view reason, std::string why, std::string remedy) {
  return {Code::kInvalidArgument, reason, std::move(why), std::move(remedy)};
}

// Where the last block of the last layer ends.
Wide EndOf(const BlockShape& shape) {
  return Wide{shape.offset} + Wide{shape.layers - 1} * shape.layer_stride +
         Wide{shape.count - 1} * shape.stride + shape.block_bytes;
}

// Blocks of a layer lie behind each other; layers do, too, or lie between the blocks of the first.
bool AreApart(const BlockShape& shape) {
  if (shape.count > 1 && shape.stride < shape.block_bytes) return false;
  if (shape.layers == 1) return true;
  const Wide layer = Wide{shape.count - 1} * shape.stride + shape.block_bytes;
  if (shape.layer_stride >= layer) return true;
  const Wide row = Wide{shape.layers - 1} * shape.layer_stride + shape.block_bytes;
  return shape.layer_stride >= shape.block_bytes && (shape.count == 1 || shape.stride >= row);
}

Result<BlockShape> Complete(BlockShape shape) {
  if (shape.block_bytes == 0 || shape.count == 0 || shape.layers == 0) {
    return Refuse(reasons::kBadSize,
                  "a layout of " + std::to_string(shape.layers) + " layers of " +
                      std::to_string(shape.count) + " blocks of " +
                      std::to_string(shape.block_bytes) + " bytes has nothing in it",
                  "pass numbers from 1 on");
  }
  if (shape.stride == 0) shape.stride = shape.block_bytes;
  const Wide all = Wide{shape.count} * shape.stride;
  if (all > std::numeric_limits<uint64_t>::max()) {
    return Refuse(reasons::kBadSize, "a layer of a layout has more bytes than 64 bits can count",
                  "pass fewer blocks");
  }
  if (shape.layer_stride == 0) shape.layer_stride = static_cast<uint64_t>(all);
  if (AreApart(shape)) return shape;
  return Refuse(reasons::kRangesOverlap,
                "blocks of " + std::to_string(shape.block_bytes) + " bytes every " +
                    std::to_string(shape.stride) + " bytes, in " + std::to_string(shape.layers) +
                    " layers every " + std::to_string(shape.layer_stride) + " bytes, overlap",
                "pass strides at least as long as what lies between them");
}

Status CheckEnd(const Endpoint& end, const BlockShape& shape, const std::string& node) {
  if (!end.file.empty() || end.buffer.empty()) {
    return Refuse(reasons::kBadEndpoint, "a layout's end names no buffer", "name a buffer");
  }
  if (end.node != node) {
    return Refuse(reasons::kBadEndpoint,
                  "a layout has buffers of node \"" + node + "\" and of node \"" + end.node + "\"",
                  "make a layout for each node");
  }
  if (!end.bytes) {
    return Refuse(reasons::kBadSize, "the length of " + end.ToString() + " is not known",
                  "pass the buffer's bytes with the end");
  }
  const uint64_t begin = end.offset_bytes.value_or(0);
  if (*end.bytes > std::numeric_limits<uint64_t>::max() - begin || EndOf(shape) > *end.bytes) {
    return {Code::kOutOfRange, reasons::kRangeOutOfBuffer,
            std::to_string(shape.layers) + " layers of " + std::to_string(shape.count) +
                " blocks of " + std::to_string(shape.block_bytes) + " bytes, every " +
                std::to_string(shape.stride) + " bytes from byte " + std::to_string(shape.offset) +
                " on, do not lie inside " + end.ToString(),
            "pass fewer blocks, or a longer range of the buffer"};
  }
  return OkStatus();
}

Status CheckNumbers(std::span<const uint64_t> blocks, uint64_t count, const char* which) {
  uint64_t greatest = 0;  // without a branch for each
  for (const uint64_t block : blocks) greatest = std::max(greatest, block);
  if (greatest < count) return OkStatus();
  const auto wrong = std::find_if(blocks.begin(), blocks.end(),
                                  [count](uint64_t block) { return block >= count; });
  return {Code::kOutOfRange, reasons::kRangeOutOfBuffer,
          "number " + std::to_string(wrong - blocks.begin()) + " of the " + which +
              " blocks is block " + std::to_string(*wrong) + ", and its layout has blocks 0 to " +
              std::to_string(count - 1),
          "pass numbers of blocks, and not offsets"};
}

}  // namespace

Result<BlockLayout> BlockLayout::Make(const std::vector<Endpoint>& ends, const BlockShape& shape) {
  if (ends.empty()) {
    return Refuse(reasons::kBadEndpoint, "a layout of no buffer", "name at least one");
  }
  BlockLayout made;
  ONECOPY_ASSIGN_OR_RETURN(made.shape_, Complete(shape));
  if (ends.size() > kMaxRanges || made.shape_.layers > kMaxRanges / ends.size()) {
    return Refuse(reasons::kBadArgument,
                  std::to_string(ends.size()) + " ends of " + std::to_string(shape.layers) +
                      " layers; a transfer takes " + std::to_string(kMaxRanges) + " ranges",
                  "make several layouts");
  }
  std::map<std::string, uint32_t> numbers;
  for (const Endpoint& end : ends) {
    ONECOPY_RETURN_IF_ERROR(CheckEnd(end, made.shape_, ends.front().node));
    const auto next = static_cast<uint32_t>(made.buffers_.size());
    const auto [known, added] = numbers.try_emplace(end.buffer, next);
    if (added) made.buffers_.push_back({.node = end.node, .buffer = end.buffer});
    const uint64_t first = end.offset_bytes.value_or(0) + made.shape_.offset;
    for (uint64_t layer = 0; layer < made.shape_.layers; ++layer) {
      made.layers_.push_back({known->second, first + layer * made.shape_.layer_stride});
    }
  }
  if (made.buffers_.size() <= kMaxBuffers) return made;
  return Refuse(reasons::kBadEndpoint,
                std::to_string(made.buffers_.size()) + " buffers; a transfer takes up to " +
                    std::to_string(kMaxBuffers),
                "make several layouts");
}

Result<EqualRanges> RangesOf(const BlockLayout& source, std::span<const uint64_t> source_blocks,
                             const BlockLayout& destination, std::span<const uint64_t> blocks) {
  const size_t count = blocks.size();
  const size_t layers = source.layers();
  if (source.block_bytes() != destination.block_bytes() || layers != destination.layers()) {
    return Refuse(reasons::kSizeMismatch,
                  "the source's layout has " + std::to_string(layers) + " layers of blocks of " +
                      std::to_string(source.block_bytes()) + " bytes, the destination's " +
                      std::to_string(destination.layers()) + " of " +
                      std::to_string(destination.block_bytes()),
                  "make both of as many layers and of blocks of one length");
  }
  if (source_blocks.size() != count) {
    return Refuse(reasons::kSizeMismatch,
                  "there are " + std::to_string(source_blocks.size()) +
                      " blocks of the source and " + std::to_string(count) + " of the destination",
                  "pass as many of both");
  }
  if (count == 0) return Refuse(reasons::kBadSize, "no blocks", "pass at least one of each");
  if (count > kMaxRanges / layers) {
    return Refuse(reasons::kBadArgument,
                  std::to_string(count) + " blocks of " + std::to_string(layers) +
                      " layers; a transfer takes 1 to " + std::to_string(kMaxRanges) + " of all",
                  "split the request");
  }
  ONECOPY_RETURN_IF_ERROR(CheckNumbers(source_blocks, source.count(), "source's"));
  ONECOPY_RETURN_IF_ERROR(CheckNumbers(blocks, destination.count(), "destination's"));
  EqualRanges ranges{.bytes = source.block_bytes()};
  const auto place = [layers](const BlockLayout& layout, std::span<const uint64_t> numbers,
                              std::vector<uint64_t>* offsets, std::vector<uint32_t>* buffers) {
    const uint64_t stride = layout.shape_.stride;
    offsets->reserve(layers * numbers.size());
    const bool several = layout.buffers_.size() > 1;
    if (several) buffers->reserve(layers * numbers.size());
    for (const BlockLayout::Layer& layer : layout.layers_) {
      for (const uint64_t number : numbers) offsets->push_back(layer.offset + number * stride);
      if (several) buffers->insert(buffers->end(), numbers.size(), layer.buffer);
    }
  };
  place(source, source_blocks, &ranges.sources, &ranges.source_buffers);
  place(destination, blocks, &ranges.destinations, &ranges.destination_buffers);
  return ranges;
}

Result<TransferRequest> MoveBlocks(const BlockLayout& source,
                                   std::span<const uint64_t> source_blocks,
                                   const BlockLayout& destination,
                                   std::span<const uint64_t> blocks) {
  ONECOPY_ASSIGN_OR_RETURN(EqualRanges ranges,
                           RangesOf(source, source_blocks, destination, blocks));
  TransferRequest request;
  const auto name = [](const std::vector<Endpoint>& buffers, Endpoint* first,
                       std::vector<Endpoint>* more) {
    *first = buffers.front();
    more->assign(buffers.begin() + 1, buffers.end());
  };
  name(source.buffers(), &request.source, &request.more_sources);
  name(destination.buffers(), &request.destination, &request.more_destinations);
  request.equal_ranges = std::make_shared<const EqualRanges>(std::move(ranges));
  return request;
}

}  // namespace onecopy
