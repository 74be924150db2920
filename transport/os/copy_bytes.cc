#include "transport/os/copy_bytes.h"

#include <cstring>

extern "C" void onecopy_copy_bytes(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}
