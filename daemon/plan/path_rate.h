// What transfers have made by one way: rates of whole paths, as receipts tell them.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/plan/wire.h"

namespace onecopy::plan {

// A path between two memories, in one direction; which nodes these are on is for others to know.
struct PathKey {
  std::string path;     // from the ladder
  std::string link;     // empty inside a node
  WireEnd source;       // the memory in which the payload begins, not the slots on its way, …
  WireEnd destination;  // … and the one in which it ends
  bool source_staged = false;
  bool destination_staged = false;

  friend auto operator<=>(const PathKey&, const PathKey&) = default;
};

// Shorter transfers are over before a path is at full speed, so their receipts tell nothing.
inline constexpr uint64_t kMinMeasuredBytes = uint64_t{16} << 20;

// Only transfers of about one size compare. The sizes from which on a class begins.
inline constexpr std::array<uint64_t, 4> kSizeClasses = {kMinMeasuredBytes, uint64_t{64} << 20,
                                                         uint64_t{256} << 20, uint64_t{1} << 30};
// What is shorter than the first counts to it.
size_t SizeClassOf(uint64_t bytes);

// Of one size class.
struct PathRate {
  double bytes_per_second = 0;                      // latency included
  uint32_t transfers = 0;                           // that it rests on; 0: nothing is known
  std::chrono::system_clock::time_point time = {};  // when the last of them ended
  // What one transfer may lose now by going this way although it was measured to be slow, so that
  // it is found out when that is no longer so.
  double spare_seconds = 0;
};

using PathRates = std::array<PathRate, kSizeClasses.size()>;

}  // namespace onecopy::plan
