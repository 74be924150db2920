#include "daemon/rpc/grpc/completion_queue.h"

#include <grpc/support/time.h>
#include <pthread.h>

#include <cassert>
#include <utility>

namespace onecopy::rpc {
namespace {

// Completions that are dealt with before something that was posted has its turn.
constexpr int kAtOnce = 64;

}  // namespace

QueueThread::QueueThread(std::unique_ptr<grpc::CompletionQueue> queue, const std::string& name)
    : queue_(std::move(queue)), thread_([this, name] {
        ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
        Run();
      }) {}

void QueueThread::Run() {
  id_ = std::this_thread::get_id();
  int at_once = 0;
  while (true) {
    void* tag = nullptr;
    bool ok = false;
    if (posted_.empty()) {
      if (!queue_->Next(&tag, &ok)) break;
    } else {
      const auto next = at_once == kAtOnce
                            ? grpc::CompletionQueue::TIMEOUT
                            : queue_->AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_MONOTONIC));
      if (next == grpc::CompletionQueue::SHUTDOWN) break;
      if (next == grpc::CompletionQueue::TIMEOUT) {
        at_once = 0;
        Task task = std::move(posted_.front());
        posted_.pop_front();
        task();
        continue;
      }
    }
    ++at_once;
    const std::unique_ptr<Completed> completed(static_cast<Completed*>(tag));
    (*completed)(ok);
    if (posted_.empty()) at_once = 0;
  }
  posted_.clear();
}

void QueueThread::Post(Task task) {
  assert(InThread());
  posted_.push_back(std::move(task));
}

bool QueueThread::InThread() const { return std::this_thread::get_id() == id_; }

QueueThread::~QueueThread() { StopAndJoin(); }

void QueueThread::StopAndJoin() {
  if (!thread_.joinable()) return;
  queue_->Shutdown();
  thread_.join();
}

}  // namespace onecopy::rpc
