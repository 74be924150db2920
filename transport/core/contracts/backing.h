// What stands behind a client's host memory: a file of the client's, which may have less memory
// than it has bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onecopy/status.h"

namespace onecopy {

// Offsets are of a region's bytes. Any thread; nothing blocks for long.
class Backing {
 public:
  virtual ~Backing() = default;

  // Whether all of the file has memory; cheap to ask.
  virtual bool IsFull() const = 0;
  // Whether some of these bytes have no memory: touching them would give them some, at this
  // process's expense, or fault where there is none available. The client may change it at any
  // time.
  virtual bool HasHoles(uint64_t offset, uint64_t bytes) const = 0;

  // Reads without giving memory to what has none: such bytes are zero. ABORTED (MEMORY_FAULT) where
  // they, or the memory at `to`, cannot be had.
  virtual Status Read(uint64_t offset, std::byte* to, uint64_t bytes) const = 0;

  // Sees to it that all that may be touched from now on is promised by this machine:
  // RESOURCE_EXHAUSTED (NO_MEMORY) where the memory that is missing is more than there is.
  virtual Status Cover() = 0;
};

}  // namespace onecopy
