// One session with the daemon, and the stubs of the daemon's services. It ends with the daemon;
// what outlives it is Connection's.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "client/lib/attach/attach.h"
#include "client/lib/attach/run_dir.h"
#include "client/lib/calls/call_limit.h"
#include "client/lib/calls/status_decode.h"
#include "client/lib/ring/ring_transfers.h"
#include "client/lib/ring/silence.h"
#include "client/lib/slab/own_memory.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "onecopy/client.h"
#include "onecopy/v1/arrival.grpc.pb.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "onecopy/v1/node.grpc.pb.h"
#include "onecopy/v1/transfer.grpc.pb.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

// How long a call may take, unless a CallLimit ends it earlier. kQuick: a call that asks for or
// changes what the daemon knows, at most the session's timeout(). kWorking: a call that makes the
// daemon work, until the daemon has been silent for silence_limit().
enum class Patience { kQuick, kWorking };

// Thread-safe.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // `number`: this is the connection's 1st, 2nd, …
  static Result<std::shared_ptr<Session>> Open(const RunDir& run_dir, const ConnectOptions& options,
                                               uint64_t number);

  AttachSocket& attach() { return attach_; }
  const AttachSocket& attach() const { return attach_; }
  RingTransfers& ring() { return ring_; }
  OwnMemory& own_memory() { return own_memory_; }
  uint64_t number() const { return number_; }
  std::chrono::milliseconds timeout() const { return timeout_; }  // of what is quick
  // How long a daemon may be silent: without any sign, and without an answer to gRPC's pings.
  std::chrono::milliseconds silence_limit() const { return silence_.limit(); }
  // Of what is registered: see ConnectOptions.
  bool keep_arrivals() const { return keep_arrivals_; }
  template <typename Stub>
  Stub& stub() const {
    return *std::get<std::unique_ptr<Stub>>(stubs_);
  }

  // Whether the daemon has ended it. One system call.
  bool Ended() const { return attach_.Ended(); }
  // After a call that failed: whether that is because the session has ended. The daemon's sockets
  // close one after another, so that it may take a moment until this is known. A daemon that stops
  // and keeps its buffers may have started what it ends with DRAINING.
  bool EndedBy(const Status& failure) const;
  // The same, if the daemon keeps its buffers and transfers for its next process: see
  // Connection::Current.
  bool GoesOnAfter(const Status& failure) const {
    return attach_.keeps_buffers() && EndedBy(failure);
  }

  // Makes `context` one of this session, with the time limit that `patience` and the thread give.
  void Prepare(grpc::ClientContext& context, Patience patience) const;

  // Deletes a buffer whose owner object ends. Takes at most kTeardown. After a call that was not
  // answered in time, the next ones are only sent, so that many take no longer than one. As soon as
  // the daemon answers a call, all unanswered ones are sent again.
  Status EndBuffer(const std::string& name, bool force);
  // Something else that ends has not been answered in time, likewise; and whether anything has not,
  // and no call was answered since.
  void NoteHopeless() { hopeless_ = true; }
  bool hopeless() const { return hopeless_; }

  // The daemon, for messages: "the onecopyd in /run/onecopy".
  std::string Peer() const { return "the onecopyd in " + run_dir_; }
  Status Decode(const grpc::Status& status) const { return DecodeStatus(status, Peer()); }

  // One call: Call(&v1::BufferService::Stub::GetBuffer, request, Patience::kQuick).
  template <typename Stub, typename Request, typename Reply>
  Result<Reply> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                     const Request& request, Patience patience) {
    grpc::ClientContext context;
    Prepare(context, patience);
    Reply reply;
    const grpc::Status status = (stub<Stub>().*method)(&context, request, &reply);
    if (!status.ok()) return Decode(status);
    if (waited_for_end_) waited_for_end_ = false;
    if (hopeless_) EndBuffersLeft();
    return reply;
  }

 private:
  void EndBuffersLeft();

  Session(AttachSocket attach, std::string run_dir, const ConnectOptions& options, uint64_t number);

  AttachSocket attach_;
  RingTransfers ring_;
  OwnMemory own_memory_;
  mutable std::atomic<bool> waited_for_end_{false};
  std::atomic<bool> hopeless_{false};
  Mutex ending_;
  std::vector<v1::DeleteBufferRequest> left_ ONECOPY_GUARDED_BY(ending_);  // to be sent again
  const std::string run_dir_;
  const std::chrono::milliseconds timeout_;
  const bool keep_arrivals_;
  const uint64_t number_;
  std::shared_ptr<grpc::Channel> channel_;
  std::tuple<std::unique_ptr<v1::ArrivalService::Stub>, std::unique_ptr<v1::BufferService::Stub>,
             std::unique_ptr<v1::NodeService::Stub>,
             std::unique_ptr<grpc::health::v1::Health::Stub>,
             std::unique_ptr<v1::TransferService::Stub>>
      stubs_;
  Silence silence_;  // its calls use the stubs
};
using SessionRef = std::shared_ptr<Session>;

// gRPC's name for a Unix socket, in which other characters than these must be escaped as in a URI.
std::string UnixTarget(const std::string& path);

}  // namespace onecopy::client
