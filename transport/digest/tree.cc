#include "transport/digest/tree.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

namespace onecopy::digest {
namespace {

uint64_t Divided(uint64_t bytes, uint64_t by) { return bytes / by + (bytes % by != 0 ? 1 : 0); }

}  // namespace

uint64_t BlockBytes(uint64_t payload) {
  return std::max<uint64_t>(1, Divided(Divided(payload, kLeafBytes), kMostBlockSums)) * kLeafBytes;
}

std::vector<ByteRange> DifferingBlocks(const BlockSums& one, const BlockSums& other,
                                       uint64_t payload) {
  const uint64_t block_bytes = BlockBytes(payload);
  const uint64_t blocks = Divided(payload, block_bytes);
  for (const BlockSums* sums : {&one, &other}) {
    if (sums->block_bytes != block_bytes || sums->sums.size() != blocks * kDigestBytes) return {};
  }
  std::vector<ByteRange> differing;
  for (uint64_t i = 0; i < blocks; ++i) {
    const std::string_view here(one.sums);
    const std::string_view there(other.sums);
    const uint64_t at = i * kDigestBytes;
    if (here.substr(at, kDigestBytes) == there.substr(at, kDigestBytes)) continue;
    const uint64_t offset = i * block_bytes;
    const uint64_t bytes = std::min(block_bytes, payload - offset);
    if (!differing.empty() && differing.back().offset + differing.back().bytes == offset) {
      differing.back().bytes += bytes;
    } else {
      differing.push_back({offset, bytes});
    }
  }
  return differing;
}

TreeHasher::TreeHasher(uint64_t payload) : block_leaves_(BlockBytes(payload) / kLeafBytes) {
  sum_.blocks.block_bytes = block_leaves_ * kLeafBytes;
}

void TreeHasher::Add(const void* data, uint64_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes >= kLeafBytes - in_leaf_) {
    const uint64_t some = kLeafBytes - in_leaf_;
    leaf_.Add(at, some);
    EndLeaf();
    at += some;
    bytes -= some;
  }
  leaf_.Add(at, bytes);
  in_leaf_ += bytes;
}

void TreeHasher::EndLeaf() {
  const std::string digest = leaf_.Digest();
  leaf_.Reset();
  in_leaf_ = 0;
  NoteLeaf(digest.data());
}

void TreeHasher::AddLeaf(const DigestBytes& digest) {
  assert(in_leaf_ == 0);
  NoteLeaf(digest.data());
}

void TreeHasher::NoteLeaf(const void* digest) {
  root_.Add(digest, kDigestBytes);
  block_.Add(digest, kDigestBytes);
  if (++in_block_ == block_leaves_) EndBlock();
}

void TreeHasher::EndBlock() {
  sum_.blocks.sums += block_.Digest();
  block_.Reset();
  in_block_ = 0;
}

TreeSum TreeHasher::Take() {
  if (in_leaf_ > 0) EndLeaf();
  if (in_block_ > 0) EndBlock();
  sum_.root = root_.Hex();
  return std::move(sum_);
}

std::string TreeHexOf(const void* data, uint64_t bytes) {
  TreeHasher hasher(bytes);
  hasher.Add(data, bytes);
  return hasher.Take().root;
}

DigestBytes LeafRootOf(const void* data, uint64_t bytes) {
  assert(bytes > 0 && bytes <= kLeafBytes);
  const DigestBytes leaf = DigestOf(data, bytes);
  return DigestOf(leaf.data(), leaf.size());
}

}  // namespace onecopy::digest
