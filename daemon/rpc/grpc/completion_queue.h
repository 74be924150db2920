// A completion queue of gRPC and the thread that runs it.
#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "transport/core/base/executor.h"
#include "transport/core/base/unique_function.h"

namespace onecopy::rpc {

// What to do when an operation has completed; `ok` as gRPC says it. Runs on the queue's thread and
// must not block.
using Completed = UniqueFunction<void(bool ok)>;

// The tag under which to start an operation. The queue runs and frees it when the operation
// completes, which each operation that gRPC took does.
inline void* NewTag(Completed completed) { return new Completed(std::move(completed)); }

// For a tag whose operation will not come back.
inline void FreeTag(void* tag) { delete static_cast<Completed*>(tag); }

// Owns a queue and runs what completes on it, on a thread of that name, and what is posted to it
// there. gRPC's own threads for this (of its callback API) are no choice: they sleep for up to 100
// ms while a call waits.
class QueueThread final : public Executor {
 public:
  QueueThread(std::unique_ptr<grpc::CompletionQueue> queue, const std::string& name);
  ~QueueThread() override;  // as StopAndJoin
  QueueThread(const QueueThread&) = delete;
  QueueThread& operator=(const QueueThread&) = delete;

  grpc::CompletionQueue& queue() { return *queue_; }

  // The queue's thread alone: the task runs once what has completed meanwhile was dealt with, or
  // much of it.
  void Post(Task task) override;
  bool InThread() const override;

  // Any thread but its own, safe to repeat: waits until every operation has completed. None may be
  // started any more.
  void StopAndJoin();

 private:
  void Run();

  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::deque<Task> posted_;  // the thread's
  std::atomic<std::thread::id> id_{};
  std::thread thread_;
};

}  // namespace onecopy::rpc
