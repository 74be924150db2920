#include "transport/os/memory/copy_regions.h"

#include <algorithm>

#include "transport/os/memory/copy_bytes.h"

namespace onecopy::os {
namespace {

// What all of them read, in one piece.
bool MayHaveHoles(const Backing& backing, std::span<const StridedCopy> copies) {
  uint64_t begin = UINT64_MAX;
  uint64_t end = 0;
  for (const StridedCopy& copy : copies) {
    begin = std::min(begin, copy.from);
    end = std::max(end, copy.from + (copy.count - 1) * copy.from_stride + copy.bytes);
  }
  return begin < end && backing.HasHoles(begin, end - begin);
}

Status ReadAll(const Backing& from, std::byte* to, const StridedCopy& copy) {
  for (uint64_t i = 0; i < copy.count; ++i) {
    ONECOPY_RETURN_IF_ERROR(
        from.Read(copy.from + i * copy.from_stride, to + copy.to + i * copy.to_stride, copy.bytes));
  }
  return OkStatus();
}

}  // namespace

Status CopyRegions(const Region& from, const Region& to, std::span<const StridedCopy> copies) {
  ONECOPY_RETURN_IF_ERROR(from.CheckIntact());
  ONECOPY_RETURN_IF_ERROR(to.CheckUsable());
  const bool sparse = from.backing() != nullptr && MayHaveHoles(*from.backing(), copies);
  for (const StridedCopy& copy : copies) {
    if (sparse) {
      ONECOPY_RETURN_IF_ERROR(ReadAll(*from.backing(), to.address(), copy));
    } else if (copy.count == 1) {
      onecopy_copy_bytes(to.address() + copy.to, from.address() + copy.from, copy.bytes);
    } else {
      onecopy_copy_strided(to.address() + copy.to, copy.to_stride, from.address() + copy.from,
                           copy.from_stride, copy.bytes, copy.count);
    }
  }
  ONECOPY_RETURN_IF_ERROR(from.CheckIntact());
  return to.CheckIntact();
}

}  // namespace onecopy::os
