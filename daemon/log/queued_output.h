// Queues records for an output that has its own thread, so that logging never waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/log/log.h"

namespace onecopy::log {

// Takes records from any thread, at the price of copying them, and hands them in order to an output
// that may be as slow as it likes: a pipe without a reader, a terminal after Ctrl-S, a journal
// that hangs. At most `most_bytes` wait; of those a quarter is for warnings and errors alone. What
// finds no room is dropped and counted, and as soon as the output moves again it is told how much.
class QueuedOutput final : public Output {
 public:
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  // RESOURCE_EXHAUSTED where no thread can be made.
  static Result<std::shared_ptr<QueuedOutput>> Start(std::shared_ptr<Output> slow,
                                                     size_t most_bytes = kMaxBytes);
  // The thread writes the queued records; this does not wait for it.
  ~QueuedOutput() override;

  void Write(const Record& record) override;
  bool Flush(std::chrono::milliseconds limit) override;
  uint64_t dropped() const override;

 private:
  struct Queue;
  explicit QueuedOutput(std::shared_ptr<Queue> queue);

  const std::shared_ptr<Queue> queue_;
};

}  // namespace onecopy::log
