#include "daemon/engine/staging/summing.h"

#include <algorithm>
#include <utility>

namespace onecopy::engine {
namespace {

constexpr uint64_t kPassBytes = uint64_t{128} << 10;

}  // namespace

Summing::Summing(const WantedSums& wanted)
    : whole_(wanted.whole), block_bytes_(wanted.block_bytes) {
  if (wanted.tree_payload) tree_.emplace(*wanted.tree_payload);
}

void Summing::Add(const std::byte* data, uint64_t bytes) {
  // What is read twice is still in the processor's cache.
  for (uint64_t at = 0; at < bytes; at += kPassBytes) {
    const uint64_t some = std::min(kPassBytes, bytes - at);
    if (tree_) tree_->Add(data + at, some);
    if (whole_) hasher_.Add(data + at, some);
    if (block_bytes_ != 0) AddToBlocks(data + at, some);
  }
}

bool Summing::TakesLeaves() const {
  return !whole_ && (block_bytes_ == 0 || block_bytes_ == digest::kLeafBytes);
}

void Summing::AddLeaf(const digest::DigestBytes& digest) {
  if (tree_) tree_->AddLeaf(digest);
  if (block_bytes_ != 0) blocks_.push_back(digest::HexOf(digest));
}

void Summing::AddToBlocks(const std::byte* data, uint64_t bytes) {
  while (bytes >= block_bytes_ - in_block_) {
    const uint64_t some = block_bytes_ - in_block_;
    hasher_.Add(data, some);
    EndBlock();
    data += some;
    bytes -= some;
  }
  hasher_.Add(data, bytes);
  in_block_ += bytes;
}

void Summing::EndBlock() {
  blocks_.push_back(hasher_.Hex());
  hasher_.Reset();
  in_block_ = 0;
}

Sums Summing::Take() {
  Sums sums;
  if (tree_) sums.tree = tree_->Take();
  if (whole_) sums.whole = hasher_.Hex();
  if (block_bytes_ == 0) return sums;
  if (in_block_ > 0) EndBlock();
  sums.blocks = std::move(blocks_);
  return sums;
}

}  // namespace onecopy::engine
