// Messages between two nodes about small copies from one to the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onecopy/status.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

// Owner → reader: get these bytes. Offsets count in the two buffers.
struct Push {
  uint64_t number = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;
  uint64_t transfer = 0;             // its number among those of the owner's client
  std::optional<SmallSum> sum = {};  // of the owner's bytes: the reader compares its own

  friend bool operator==(const Push&, const Push&) = default;
};
// Reader → owner: how the push ended. CHECKSUM_MISMATCH: the bytes have arrived, and the checksums
// differ.
struct Pushed {
  uint64_t number = 0;
  Status status;

  // Not one of them, but all that were not answered before: the reader listens no more.
  static constexpr uint64_t kRest = UINT64_MAX;
};

// The length of a push in a message. If both sides have agreed on sums, each push of the channel
// has room for one.
inline constexpr size_t PushBytes(bool sums) { return sums ? 56 : 40; }
inline constexpr size_t MaxPushes(bool sums) {
  return Connection::kMaxMessageBytes / PushBytes(sums);
}

// At most MaxPushes.
std::string Encode(std::span<const Push> pushes, bool sums = true);
std::string Encode(const Pushed& pushed);
// std::nullopt if the bytes are not such a message.
std::optional<std::vector<Push>> DecodePushes(std::span<const std::byte> bytes, bool sums = true);
std::optional<Pushed> DecodePushed(std::span<const std::byte> bytes);

}  // namespace onecopy::pipeline
