// Opened devices, and what becomes of them when the test removes one.
#pragma once

#include <mutex>

#include "tests/rdma/lend/real.h"

namespace onecopy::lend {

// As the functions of libibverbs that they are named after. Any thread, as there.
ibv_device** ListDevices(int* count);
ibv_context* OpenDevice(ibv_device* device);
int CloseDevice(ibv_context* context);
int NextAsyncEvent(ibv_context* context, ibv_async_event* event);

// Whether the device behind the context has been removed; it stays so for this context, also when
// the test puts the device back.
bool IsRemoved(ibv_context* context);

// While it lives, the context's async_fd is the device's own, as the real library wants it for what
// is made then: it tells the kernel where events about that go. One at a time for a context; others
// wait.
class RealEvents {
 public:
  explicit RealEvents(ibv_context* context);
  ~RealEvents();
  RealEvents(const RealEvents&) = delete;
  RealEvents& operator=(const RealEvents&) = delete;

 private:
  ibv_context* const context_;
  int ours_ = -1;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace onecopy::lend
