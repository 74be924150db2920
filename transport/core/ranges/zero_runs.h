// Finds runs of zeros that can stay holes in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace onecopy {

// A piece of bytes that go to a file.
struct FileRun {
  uint64_t at = 0;  // in them
  uint64_t bytes = 0;
  bool zero = false;
};

// Holes begin and end at multiples of this in the file, and have this length at least: a smaller
// one saves less than one more write costs.
inline constexpr uint64_t kHoleGrain = 4096;
inline constexpr uint64_t kLeastHole = 32 * 1024;

// All of the bytes, which go to `offset` of the file, in order: what is zero for long apart from
// the rest. Looks at one word of every 32 KiB outside holes, and at every byte of a hole.
std::vector<FileRun> SplitAtZeros(const std::byte* data, uint64_t bytes, uint64_t offset);

}  // namespace onecopy
