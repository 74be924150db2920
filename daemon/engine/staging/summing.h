// What adds up a payload's checksums while its bytes come by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/digest/hasher.h"
#include "transport/digest/tree.h"

namespace onecopy::engine {

// Which checksums of a payload are wanted.
struct WantedSums {
  bool whole = false;
  uint64_t block_bytes = 0;                   // not 0, and not the whole: of each block of so many
  std::optional<uint64_t> tree_payload = {};  // the tree of a payload of so many bytes
};

struct Sums {
  std::string whole = {};                // in hexadecimal
  std::vector<std::string> blocks = {};  // likewise
  digest::TreeSum tree = {};
};

// One thread at a time.
class Summing {
 public:
  explicit Summing(const WantedSums& wanted);

  // The payload's bytes, in their order.
  void Add(const std::byte* data, uint64_t bytes);
  // Whether the checksums of leaves are enough to compute what is wanted.
  bool TakesLeaves() const;
  // Adds the next whole leaf. Call it before Add.
  void AddLeaf(const digest::DigestBytes& digest);
  // Once, after all was added.
  Sums Take();

 private:
  void AddToBlocks(const std::byte* data, uint64_t bytes);
  void EndBlock();

  const bool whole_;
  const uint64_t block_bytes_;
  digest::Hasher hasher_;
  uint64_t in_block_ = 0;
  std::optional<digest::TreeHasher> tree_;
  std::vector<std::string> blocks_;
};

}  // namespace onecopy::engine
