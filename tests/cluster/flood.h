// Sends the same request to a daemon in a loop, as fast as the daemon answers.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "onecopy/v1/arrival.grpc.pb.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "onecopy/v1/node.grpc.pb.h"
#include "onecopy/v1/session.grpc.pb.h"
#include "onecopy/v1/transfer.grpc.pb.h"

namespace onecopy::testing {

// One kind of request, of which so many wait for their answers at a time, until it is stopped.
class Flood {
 public:
  struct Call {
    virtual ~Call() = default;
    grpc::ClientContext context;
    grpc::Status status;
  };
  // Begins the call of that number, which ends under itself as its tag.
  using Begin = std::function<std::unique_ptr<Call>(grpc::CompletionQueue& queue, uint64_t number)>;

  Flood(Begin begin, size_t at_a_time);
  ~Flood();  // ends the calls that are under way
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  uint64_t answered() const { return answered_; }
  uint64_t refused() const { return refused_; }  // of those, for want of room

 private:
  void Run(size_t at_a_time);

  const Begin begin_;
  grpc::CompletionQueue queue_;
  std::map<Call*, std::unique_ptr<Call>> under_way_;  // the thread's
  std::atomic<uint64_t> answered_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Calls of one method of a stub; `make` says what is asked, `prepare` who asks.
template <typename Stub, typename Request, typename Reply>
Flood::Begin Calls(Stub& stub,
                   std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (Stub::*method)(
                       grpc::ClientContext*, const Request&, grpc::CompletionQueue*),
                   std::function<void(grpc::ClientContext&)> prepare,
                   std::function<Request(uint64_t number)> make) {
  struct Unary final : Flood::Call {
    Reply reply;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
  };
  return [&stub, method, prepare = std::move(prepare), make = std::move(make)](
             grpc::CompletionQueue& queue, uint64_t number) -> std::unique_ptr<Flood::Call> {
    auto call = std::make_unique<Unary>();
    prepare(call->context);
    call->reader = (stub.*method)(&call->context, make(number), &queue);
    call->reader->Finish(&call->reply, &call->status, static_cast<Flood::Call*>(call.get()));
    return call;
  };
}

// A user of a daemon's API, with a session.
class ApiUser {
 public:
  explicit ApiUser(std::shared_ptr<grpc::Channel> channel);
  ~ApiUser();  // ends the session

  // Who asks.
  std::function<void(grpc::ClientContext&)> prepare() const;
  const std::string& owner() const { return owner_; }

  const std::unique_ptr<v1::TransferService::Stub> transfers;
  const std::unique_ptr<v1::BufferService::Stub> buffers;
  const std::unique_ptr<v1::NodeService::Stub> nodes;
  const std::unique_ptr<v1::ArrivalService::Stub> arrivals;

 private:
  const std::unique_ptr<v1::SessionService::Stub> sessions_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::Session>> session_;
  std::string token_;
  std::string owner_;
};

// A connection to a daemon's api.sock that is that user's, by the kernel's word.
std::shared_ptr<grpc::Channel> ChannelAs(uid_t uid, const std::string& run_dir);

// Pieces of one byte, as many as a transfer may have.
inline constexpr size_t kMostRanges = 131'072;
v1::Ranges ManyRanges(uint64_t stride, size_t count = kMostRanges);

}  // namespace onecopy::testing
