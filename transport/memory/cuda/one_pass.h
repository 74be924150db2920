// Measures whether the driver really copies between two GPUs in one pass.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/memory/cuda/gpu.h"

namespace onecopy::cuda {

// How memory came to be mapped here; what the driver does with a copy depends on it.
enum class Mapping { kOwn, kOwnLegacy, kImported, kLegacy };

// Bytes that a GPU has sent over NVLink since some beginning; nothing without counters. May
// take a millisecond.
using SentOverNvlink = std::function<std::optional<uint64_t>(const std::string& uuid)>;
// Whether two GPUs are joined by NVLink; nothing if unknown.
using JoinedByNvlink =
    std::function<std::optional<bool>(const std::string& uuid, const std::string& other)>;

struct NvlinkCounters {
  SentOverNvlink sent = [](const std::string&) { return std::nullopt; };
  JoinedByNvlink joined = [](const std::string&, const std::string&) { return std::nullopt; };
};

// What has been seen of the ways between GPUs, each once: of these two, between memories mapped
// like these. Any thread that may block.
class OnePass {
 public:
  explicit OnePass(NvlinkCounters counters) : counters_(std::move(counters)) {}

  struct Pair {
    Gpu* from = nullptr;  // the one that copies
    Gpu* to = nullptr;
    Mapping from_mapping = Mapping::kOwn;
    Mapping to_mapping = Mapping::kOwn;
    friend auto operator<=>(const Pair&, const Pair&) = default;
  };
  struct Seen {
    Status status;         // NOT_ONE_PASS with the figures, where copies take a detour
    std::string evidence;  // the figures, where they do not
  };

  // Nothing where it has not been looked at.
  std::optional<Seen> Known(const Pair& way);

  // Looks, unless that is known: copies the first of these bytes a few times, beside as many
  // between memories of this process's own, and reads NVLink's counters before and after. A detour
  // takes several times as long, and moves no counter. Both contexts stay open meanwhile, and
  // `from` reaches all of this. What cannot be looked at (no room for own memory) is NOT_ONE_PASS,
  // and looked at again the next time.
  Seen Look(const Pair& way, CUdeviceptr from, CUdeviceptr to, uint64_t bytes);

 private:
  NvlinkCounters counters_;
  Mutex mutex_;
  std::map<Pair, Seen> seen_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::cuda
