// How a file is cut into pieces, and how many of them are under way.
#pragma once

#include <algorithm>
#include <cstdint>

namespace onecopy::posix {

struct Cut {
  unsigned depth = 8;
  uint64_t piece_bytes = uint64_t{1} << 20;
  // Of what is read past the page cache: more keep no disk busier, and the less memory is gone
  // through the more of it is still in the processor's cache when it is copied on.
  unsigned direct_read_depth = 16;
  uint64_t direct_read_piece_bytes = uint64_t{512} << 10;
};

// A thread each copies out of the page cache, so on many cores more of them are worth it; and some
// wait for one while all cores are busy.
inline unsigned DepthFor(unsigned cores) { return std::clamp(cores + cores / 2, 8U, 24U); }

}  // namespace onecopy::posix
