// xxh3-128-tree, as transport/digest/tree.h describes it, against XXH3 itself.
#include <xxhash.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/memory.h"
#include "transport/digest/tree.h"

using namespace onecopy;
using namespace onecopy::digest;
using namespace onecopy::testing;

namespace {

namespace digest_test {

std::string Canonical(const std::string& bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return {reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest};
}

std::string HexText(const std::string& digest) {
  std::string text;
  for (const char byte : digest) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(byte));
    text += two;
  }
  return text;
}

std::string Payload(uint64_t bytes) {
  std::string payload(bytes, '\0');
  Fill(reinterpret_cast<std::byte*>(payload.data()), bytes, 3);
  return payload;
}

TreeSum SumOf(const std::string& payload, uint64_t step) {
  TreeHasher summing(payload.size());
  for (uint64_t at = 0; at < payload.size(); at += step) {
    summing.Add(payload.data() + at, std::min(step, payload.size() - at));
  }
  return summing.Take();
}

BlockSums Blocks(uint64_t payload, const std::string& each) {
  BlockSums sums{BlockBytes(payload), {}};
  for (const char one : each) sums.sums += std::string(kDigestBytes, one);
  return sums;
}

}  // namespace digest_test
using namespace digest_test;

}  // namespace

TEST_CASE("the root of a tree is the checksum of its leaves' checksums, however the bytes come") {
  const uint64_t bytes =
      GENERATE(uint64_t{1}, kLeafBytes - 1, kLeafBytes, kLeafBytes + 1, 3 * kLeafBytes + 77);
  CAPTURE(bytes);
  const std::string payload = Payload(bytes);
  std::string leaves;
  for (uint64_t at = 0; at < bytes; at += kLeafBytes)
    leaves += Canonical(payload.substr(at, kLeafBytes));
  for (const uint64_t step : {uint64_t{1} << 12, kLeafBytes, 5 * kLeafBytes, uint64_t{999'983}}) {
    const TreeSum sum = SumOf(payload, step);
    CHECK(sum.root == HexText(Canonical(leaves)));
    CHECK(sum.blocks.block_bytes == kLeafBytes);
    CHECK(sum.blocks.sums.size() == leaves.size());
  }
}

TEST_CASE("a payload of a few bytes has the sum that the documents show") {
  CHECK(SumOf("one copy", 3).root == HexText(Canonical(Canonical("one copy"))));
}

TEST_CASE("blocks grow with the payload, so that there are never too many") {
  CHECK(BlockBytes(1) == kLeafBytes);
  CHECK(BlockBytes(kMostBlockSums * kLeafBytes) == kLeafBytes);
  CHECK(BlockBytes(kMostBlockSums * kLeafBytes + 1) == 2 * kLeafBytes);
  for (const uint64_t payload : {uint64_t{1} << 40, (uint64_t{1} << 47) + 5}) {
    CHECK((payload - 1) / BlockBytes(payload) < kMostBlockSums);
  }
}

TEST_CASE("blocks of several leaves differ where a leaf of theirs does") {
  // As if of a payload that needs two leaves for each block.
  const uint64_t payload = kMostBlockSums * kLeafBytes + kLeafBytes;
  TreeHasher one(payload);
  TreeHasher other(payload);
  std::string bytes = Payload(kLeafBytes);
  const auto data = reinterpret_cast<std::byte*>(bytes.data());
  for (int leaf = 0; leaf < 5; ++leaf) {
    one.Add(data, kLeafBytes);
    data[9] ^= std::byte{leaf == 3};
    other.Add(data, kLeafBytes);
    data[9] ^= std::byte{leaf == 3};
  }
  const TreeSum here = one.Take();
  const TreeSum there = other.Take();
  CHECK(here.root != there.root);
  REQUIRE(here.blocks.sums.size() == 3 * kDigestBytes);
  for (int block = 0; block < 3; ++block) {
    const uint64_t at = block * kDigestBytes;
    const bool same =
        here.blocks.sums.substr(at, kDigestBytes) == there.blocks.sums.substr(at, kDigestBytes);
    CHECK(same == (block != 1));
  }
}

TEST_CASE("blocks that differ are found, neighbours as one") {
  constexpr uint64_t kPayload = 5 * kLeafBytes + 3;
  const auto differing = [](const std::string& one, const std::string& other) {
    return DifferingBlocks(Blocks(kPayload, one), Blocks(kPayload, other), kPayload);
  };
  CHECK(differing("aaaaaa", "aaaaaa").empty());
  CHECK(differing("aaaaaa", "bbabab") == std::vector<ByteRange>{{0, 2 * kLeafBytes},
                                                                {3 * kLeafBytes, kLeafBytes},
                                                                {5 * kLeafBytes, 3}});
  CHECK(differing("aaaaaa", "aaaabb") == std::vector<ByteRange>{{4 * kLeafBytes, kLeafBytes + 3}});
  // Another daemon's, of another payload or of none.
  CHECK(differing("aaaaaa", "bbbbb").empty());
  CHECK(differing("aaaaaa", "bbbbbbb").empty());
  CHECK(differing("aaaaaa", "").empty());
  BlockSums longer = Blocks(kPayload, "bbbbbb");
  longer.block_bytes *= 2;
  CHECK(DifferingBlocks(Blocks(kPayload, "aaaaaa"), longer, kPayload).empty());
}
