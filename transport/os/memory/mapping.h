// Host memory that is backed by a memfd or lies in no file at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

// Ownership of one mmap.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// A memfd of that size, sealed against any change of it, so that mappings of it never fault.
Result<UniqueFd> SealedMemfd(const std::string& name, uint64_t bytes);

// Maps `bytes` of a file, shared and writable, from `offset` (a multiple of the page size) on.
// `bytes` 0 gives an empty mapping.
Result<Mapping> MapShared(int fd, uint64_t bytes, uint64_t offset = 0);

// Private zeroed memory; pages come on first touch.
Result<Mapping> MapAnonymous(uint64_t bytes);

// The same, at least as long, for bytes that disks and devices move: of huge pages where the kernel
// has them, as what lies in one piece of memory is asked of a disk at once. A child of this process
// has none of it, so that nothing a device knows is ever exchanged for a copy.
Result<Mapping> MapHugePages(uint64_t bytes);
inline constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// Keeps these pages in memory; false where the limit on locked memory, or the right to, does not
// allow it.
bool LockInMemory(std::byte* data, uint64_t bytes);

// How much the calling thread may have locked, or pinned for devices, in all of its process;
// nothing where no limit counts.
std::optional<uint64_t> LockedMemoryLimit();

}  // namespace onecopy::os
