// How a file is cut into pieces, and how many of them are under way.
#pragma once

#include <algorithm>
#include <cstdint>

namespace onecopy::posix {

struct Cut {
  unsigned depth = 8;
  uint64_t piece_bytes = uint64_t{1} << 20;
};

// A thread each copies out of the page cache, so on many cores more of them are worth it.
inline unsigned DepthFor(unsigned cores) { return std::clamp(cores, 8U, 16U); }

}  // namespace onecopy::posix
