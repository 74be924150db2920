// Transfers for which no thread waits: Client::RunTransferAsync, AwaitTransferAsync.
//
//   onecopy::CompletionQueue queue = …;
//   client->RunTransferAsync(request, {.on_end = queue.Notify(7)});   // as many as you like
//   // when queue.fd() is readable:
//   while (auto ended = queue.Take()) Handle(ended->tag, ended->outcome);
//
// Each Client has one thread for all of them, which starts with the first one. Transfers by the
// ring without callbacks do not need the thread: the call that asks for their state looks at the
// ring. Only this thread runs callbacks, one after another, without holding a lock; a callback that
// takes long delays the others. A callback can call the Client, start transfers and destroy the
// Client. It must not wait for another future of the same Client: that is refused
// (FAILED_PRECONDITION, CALLED_FROM_CALLBACK). If an exception leaves a callback, the library
// catches it; see TransferFuture::callback_status. The same thread destroys the callbacks, after
// their last call.
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy {

namespace client {
class PendingTransfer;
}  // namespace client

// How a transfer is ordered with work on CUDA streams of this process. A stream is a CUstream or
// cudaStream_t as a number; 0 is the default stream of the calling thread's current context. The
// host does not wait.
struct StreamOrder {
  // The transfer begins when the work that is now queued on this stream is done.
  std::optional<uintptr_t> after = {};
  // Work that is queued on this stream from now on waits, on the GPU, until the transfer has ended,
  // however it ends. Only the future says whether the bytes are there.
  std::optional<uintptr_t> then = {};
};

struct TransferCallbacks {
  // Called with the transfer when it is accepted, and at each change. With it, the transfer does
  // not go by the ring.
  std::function<void(const TransferInfo&)> on_update = {};
  // Called once, with what RunTransfer would have returned. TransferFuture::done() is then true.
  std::function<void(const Result<TransferInfo>&)> on_end = {};
};

// The result of one transfer. A handle: copies refer to the same transfer, and dropping all of them
// changes nothing. Any thread may use it. In a forked child of the process that made it, a transfer
// that had not ended fails with FAILED_PRECONDITION (FORKED).
class TransferFuture {
 public:
  TransferFuture() = default;  // empty: call only valid()
  bool valid() const { return state_ != nullptr; }

  bool done() const;
  // Blocks until done(), at most for `limit`. Returns done().
  bool WaitFor(std::chrono::nanoseconds limit) const;
  // Blocks until done(). Returns what RunTransfer would have returned: a failed transfer is a
  // TransferInfo in a final state, see OutcomeOf.
  Result<TransferInfo> Get() const;
  // The transfer as last reported. Empty before the transfer is accepted; for a transfer by the
  // ring, empty before its end.
  std::optional<TransferInfo> Latest() const;

  // Asks for the end of the transfer, also before it is accepted, and returns at once. The future
  // is done when nothing moves any more; the transfer may have succeeded by then. Does not cancel a
  // transfer by the ring.
  void Cancel() const;

  // INTERNAL if an exception left a callback, with the text of the first such exception.
  Status callback_status() const;

 private:
  friend class Client;
  explicit TransferFuture(std::shared_ptr<client::PendingTransfer> state);

  std::shared_ptr<client::PendingTransfer> state_;
};

// Reports the ends of transfers to a thread that waits for descriptors, as event loops do.
// Move-only; any number of threads may call Take. What Notify returned can outlive the queue; it
// then does nothing.
class CompletionQueue {
 public:
  struct Ended {
    uint64_t tag = 0;
    Result<TransferInfo> outcome;
  };

  // RESOURCE_EXHAUSTED, or another error if the kernel refuses a descriptor.
  static Result<CompletionQueue> Make();

  // Readable while Take has something to return. Only for poll, epoll and the like; do not read
  // from it.
  int fd() const;
  // The oldest ended transfer; empty if there is none, and in a forked child. Never blocks.
  std::optional<Ended> Take();
  // For TransferCallbacks::on_end.
  std::function<void(const Result<TransferInfo>&)> Notify(uint64_t tag) const;

 private:
  struct State;
  explicit CompletionQueue(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace onecopy
