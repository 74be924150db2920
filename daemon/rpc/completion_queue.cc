#include "daemon/rpc/completion_queue.h"

#include <pthread.h>

#include <utility>

namespace onecopy::rpc {

QueueThread::QueueThread(std::unique_ptr<grpc::CompletionQueue> queue, const std::string& name)
    : queue_(std::move(queue)), thread_([this, name] {
        ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
        void* tag = nullptr;
        bool ok = false;
        while (queue_->Next(&tag, &ok)) {
          const std::unique_ptr<Completed> completed(static_cast<Completed*>(tag));
          (*completed)(ok);
        }
      }) {}

QueueThread::~QueueThread() { StopAndJoin(); }

void QueueThread::StopAndJoin() {
  if (!thread_.joinable()) return;
  queue_->Shutdown();
  thread_.join();
}

}  // namespace onecopy::rpc
