// What torch's CUDAPluggableAllocator calls, and CUDA's MemPool through it: functions of C, found
// by their names in this module. They know no Python: torch calls them on any thread, with the GIL
// or without, also after Python's end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "onecopy/pool.h"

namespace onecopy::python {

// Which pool's memory a device's tensors are made of, from now on; null: of none, and allocations
// fail. What was allocated goes back to the pool that it is of, which stays until then. Any thread.
void SetTorchPool(int device, std::shared_ptr<Pool> pool);

struct TorchHooks {
  uint64_t blocks = 0;     // that torch has, of all pools
  uint64_t failures = 0;   // allocations that failed, since the beginning
  std::string last_error;  // why the last of them did; empty: none has
};
TorchHooks TorchHooksNow();

}  // namespace onecopy::python

extern "C" {
// Null where there is no memory, and for no bytes; TorchHooks::last_error says why.
[[gnu::visibility("default")]] void* onecopy_torch_malloc(ssize_t bytes, int device, void* stream);
// The same, but fails by std::bad_alloc: torch makes a tensor of null, and goes on, where an
// allocator that has taken the place of its own returns that.
[[gnu::visibility("default")]] void* onecopy_torch_malloc_or_throw(ssize_t bytes, int device,
                                                                   void* stream);
// Goes back in the order of the stream, after what others were told to use it for.
[[gnu::visibility("default")]] void onecopy_torch_free(void* pointer, ssize_t bytes, int device,
                                                       void* stream);
// `stream` uses it, too. It must not be destroyed before the memory is freed, as with torch's own.
[[gnu::visibility("default")]] void onecopy_torch_record_stream(void* pointer, void* stream);
}
