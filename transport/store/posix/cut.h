// How a file is cut into pieces, and how many of them are under way.
#pragma once

#include <cstdint>

namespace onecopy::posix {

// 0: chosen for each file.
struct Cut {
  unsigned depth = 0;
  uint64_t piece_bytes = 0;

  // With what is chosen filled in, for so many bytes of a file on so many cores.
  Cut For(uint64_t bytes, bool direct, unsigned cores) const;
};

}  // namespace onecopy::posix
