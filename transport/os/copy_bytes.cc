#include "transport/os/copy_bytes.h"

#include <cstring>

namespace {

// By a length that the compiler knows, an element is a load and a store.
template <size_t kBytes>
void CopyElements(char* to, size_t to_stride, const char* from, size_t from_stride, size_t count) {
  for (size_t i = 0; i < count; ++i) {
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
