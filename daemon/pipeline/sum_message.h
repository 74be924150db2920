// Messages between two nodes about the checksums of small copies from one to the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/pipeline/numbers.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

// Reader → owner: sum these bytes of the buffer.
struct SumAsked {
  uint64_t number = 0;
  uint64_t from = 0;
  uint64_t bytes = 0;

  friend bool operator==(const SumAsked&, const SumAsked&) = default;
};
// Owner → reader. Without a sum, the owner cannot sum the bytes, or the reader may not read them.
struct SumTold {
  uint64_t number = 0;
  std::optional<SmallSum> sum;

  // The number of a last message: the owner has stopped, and answers nothing that is still open.
  static constexpr uint64_t kRest = UINT64_MAX;

  friend bool operator==(const SumTold&, const SumTold&) = default;
};

// In one message of either kind.
inline constexpr size_t kMaxSums = Connection::kMaxMessageBytes / 32;

// At most kMaxSums.
std::string Encode(std::span<const SumAsked> asked);
std::string Encode(std::span<const SumTold> told);
// std::nullopt if the bytes are not such a message.
std::optional<std::vector<SumAsked>> DecodeSumAsked(std::span<const std::byte> bytes);
std::optional<std::vector<SumTold>> DecodeSumTold(std::span<const std::byte> bytes);

// One sum in a message.
void AppendSum(std::string& text, const SmallSum& sum);
SmallSum TakeSum(Reader& reader);

}  // namespace onecopy::pipeline
