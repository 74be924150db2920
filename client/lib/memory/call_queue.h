// Many calls of one thread, under way together.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>

namespace onecopy::client {

// Calls under way at a time, each as many times as it has passed descriptors: enough that the
// daemon always has one, and far from what a session may have in those that are not used yet.
inline constexpr size_t kCallsUnderWay = 64;

// Ends with the queue empty, which gRPC wants before it goes.
class CallQueue {
 public:
  ~CallQueue() {
    queue_.Shutdown();
    while (Next() != nullptr) continue;
  }
  grpc::CompletionQueue& get() { return queue_; }

  // The tag of a call that has ended; null: there will be none.
  void* Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) ? tag : nullptr;
  }

 private:
  grpc::CompletionQueue queue_;
};

}  // namespace onecopy::client
