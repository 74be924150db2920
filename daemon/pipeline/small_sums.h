// The two checksums of each small copy of a route that asks for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

// OK where they are equal; else DATA_LOSS (CHECKSUM_MISMATCH).
Status CompareSums(const SmallSum& source, const SmallSum& destination);
// INTERNAL: the copy was begun without checksums, which is a bug.
Status NoSums();

// Keeps a value for each copy, by the copy's number, until it is taken. A list is enough: it has at
// most SmallCopyRoute::kMaxUnderWay entries, and the oldest usually end first. It allocates only
// while it grows. One thread at a time.
template <typename Kept>
class ByCopy {
 public:
  Kept& Begin(uint64_t number) { return copies_.emplace_back(number, Kept()).second; }
  // Null if there is none for that copy.
  Kept* Find(uint64_t number) {
    const auto found = At(number);
    return found == copies_.end() ? nullptr : &found->second;
  }
  std::optional<Kept> Take(uint64_t number) {
    const auto found = At(number);
    if (found == copies_.end()) return std::nullopt;
    std::optional<Kept> kept(std::move(found->second));
    copies_.erase(found);
    return kept;
  }
  const std::vector<std::pair<uint64_t, Kept>>& all() const { return copies_; }

 private:
  auto At(uint64_t number) {
    return std::find_if(copies_.begin(), copies_.end(),
                        [number](const auto& copy) { return copy.first == number; });
  }

  std::vector<std::pair<uint64_t, Kept>> copies_;
};

}  // namespace onecopy::pipeline
