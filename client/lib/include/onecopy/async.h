// Transfers that no thread waits for: Client::RunTransferAsync, AwaitTransferAsync.
//
//   onecopy::CompletionQueue queue = …;
//   client->RunTransferAsync(request, {.on_end = queue.Notify(7)});   // as many as one likes
//   // when queue.fd() is readable:
//   while (auto ended = queue.Take()) Handle(ended->tag, ended->outcome);
//
// Each Client has one thread of its own for all of them, from the first one on. What goes by the
// ring without callbacks does not need it: the call that asks for its state looks itself. The
// thread alone runs the callbacks, one after another and with no lock held: one that takes long
// delays the others. A callback may call the Client, start further transfers, and destroy the
// Client; what it must not do is wait for another future of the same Client (FAILED_PRECONDITION,
// CALLED_FROM_CALLBACK). An exception that leaves a callback ends there and changes nothing:
// TransferFuture::callback_status tells of it. Callbacks are destroyed on the same thread, after
// the last call of any.
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

// How a transfer is ordered with work on CUDA streams of this process (CUstream or cudaStream_t, as
// a number; 0 is the default stream of the calling thread's current context). The host waits for
// neither.
struct StreamOrder {
  // The transfer begins when what is queued there now has been done.
  std::optional<uintptr_t> after = {};
  // What is queued there from now on waits, on the GPU, until the transfer has ended, however it
  // ends: whether the bytes are there, the future alone tells.
  std::optional<uintptr_t> then = {};
};

struct TransferCallbacks {
  // The transfer once it is accepted, and at each change. With it no transfer goes by the ring.
  std::function<void(const TransferInfo&)> on_update = {};
  // Once, with what RunTransfer would have returned; TransferFuture::done() is true by then.
  std::function<void(const Result<TransferInfo>&)> on_end = {};
};

// The end of one transfer, when it comes. A handle: copies are of the same transfer, and to drop
// all changes nothing. Any thread. In a child of the process that made it, what had not ended is
// FAILED_PRECONDITION (FORKED).
class TransferFuture {
 public:
  TransferFuture() = default;  // of nothing: only valid() may be asked
  bool valid() const { return state_ != nullptr; }

  bool done() const;
  // Blocks until done() or for so long; whether it is done.
  bool WaitFor(std::chrono::nanoseconds limit) const;
  // Blocks until done(). What RunTransfer would have returned: a transfer that failed is one in a
  // last state, see OutcomeOf.
  Result<TransferInfo> Get() const;
  // The transfer as it was last told; nothing before it was accepted, and, of one by the ring,
  // before its end.
  std::optional<TransferInfo> Latest() const;

  // Asks for the transfer's end, also before it was accepted, and returns at once. It is done when
  // nothing moves any more; by then it may have succeeded anyway. One by the ring is not
  // cancelled.
  void Cancel() const;

  // INTERNAL, of a callback that an exception left: the first.
  Status callback_status() const;

 private:
  friend class Client;
  explicit TransferFuture(std::shared_ptr<client::PendingTransfer> state);

  std::shared_ptr<client::PendingTransfer> state_;
};

// Ends of transfers for a thread that waits for descriptors, as event loops do. Move-only; any
// number of threads may take. What Notify gave may outlive the queue: it then does nothing.
class CompletionQueue {
 public:
  struct Ended {
    uint64_t tag = 0;
    Result<TransferInfo> outcome;
  };

  // RESOURCE_EXHAUSTED, or what else the kernel refuses a descriptor with.
  static Result<CompletionQueue> Make();

  // Readable for as long as there is something to take; for poll, epoll and the like alone.
  int fd() const;
  // The oldest; nothing where there is none. Never blocks.
  std::optional<Ended> Take();
  // For TransferCallbacks::on_end.
  std::function<void(const Result<TransferInfo>&)> Notify(uint64_t tag) const;

 private:
  struct State;
  explicit CompletionQueue(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace onecopy
