#include "transport/os/memory/copy_bytes.h"

#include <algorithm>
#include <cstring>

namespace {

// Elements that are at least half a cache line apart are asked for this far ahead: a processor by
// itself keeps too few of their lines on the way, and does not look beyond a page. Closer ones it
// follows, and asking would only cost time. An address without a guard is not a fault here.
constexpr size_t kMinToAskFor = 32;
constexpr size_t kAheadBytes = 4096;
constexpr size_t kAheadElements = 8;  // at the least

// By a length that the compiler knows, an element is a load and a store.
template <size_t kBytes>
void CopyElements(char* to, size_t to_stride, const char* from, size_t from_stride, size_t count) {
  if (from_stride < kMinToAskFor) {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(to + i * to_stride, from + i * from_stride, kBytes);
    }
    return;
  }
  const size_t ahead = std::max(kAheadBytes / from_stride, kAheadElements) * from_stride;
  for (size_t i = 0; i < count; ++i) {
    __builtin_prefetch(from + i * from_stride + ahead);
    std::memcpy(to + i * to_stride, from + i * from_stride, kBytes);
  }
}

}  // namespace

extern "C" void onecopy_copy_bytes(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

extern "C" void onecopy_copy_strided(void* to, size_t to_stride, const void* from,
                                     size_t from_stride, size_t bytes, size_t count) {
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  switch (bytes) {
    case 1:
      return CopyElements<1>(target, to_stride, source, from_stride, count);
    case 2:
      return CopyElements<2>(target, to_stride, source, from_stride, count);
    case 4:
      return CopyElements<4>(target, to_stride, source, from_stride, count);
    case 8:
      return CopyElements<8>(target, to_stride, source, from_stride, count);
    case 16:
      return CopyElements<16>(target, to_stride, source, from_stride, count);
    default:
      break;
  }
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(target + i * to_stride, source + i * from_stride, bytes);
  }
}
