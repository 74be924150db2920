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
// Of a copy that was begun without any: a bug.
Status NoSums();

// What is kept of each copy that has been begun, by its number, until it is taken. Not more than
// SmallCopyRoute::kMaxUnderWay, of which the first ones end first: so it is found at once, and
// after the first copies nothing is allocated. One thread at a time.
template <typename Kept>
class ByCopy {
 public:
  Kept& Begin(uint64_t number) { return copies_.emplace_back(number, Kept()).second; }
  // Null for a copy that is not kept.
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
