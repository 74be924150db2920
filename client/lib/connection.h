// What every object of one client shares: the session, and the stubs of the daemon's services.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "client/lib/attach.h"
#include "client/lib/small_transfers.h"
#include "client/lib/status_decode.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "onecopy/client.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "onecopy/v1/node.grpc.pb.h"
#include "onecopy/v1/transfer.grpc.pb.h"
#include "transport/core/reasons.h"

namespace onecopy::client {

// How long a call may take: kQuick ones are answered from what the daemon knows, the others make it
// work.
enum class Patience { kQuick, kUnlimited };

// Thread-safe.
class Connection {
 public:
  static Result<std::shared_ptr<Connection>> Open(const ConnectOptions& options);

  AttachSocket& attach() { return attach_; }
  const std::string& run_dir() const { return run_dir_; }
  v1::BufferService::Stub& buffers() { return *buffers_; }
  v1::NodeService::Stub& nodes() { return *nodes_; }
  grpc::health::v1::Health::Stub& health() { return *health_; }
  v1::TransferService::Stub& transfers() { return *transfers_; }
  SmallTransfers& small() { return small_; }
  const std::string& cuda_library() const { return cuda_library_; }

  // Makes `context` one of this session, with the time limit that `patience` gives.
  void Prepare(grpc::ClientContext& context, Patience patience) const;

  // The daemon, for messages: "the onecopyd in /run/onecopy".
  std::string Peer() const { return "the onecopyd in " + run_dir_; }
  Status Decode(const grpc::Status& status) const { return DecodeStatus(status, Peer()); }

  // One call: Call(buffers(), &v1::BufferService::Stub::GetBuffer, request, Patience::kQuick).
  template <typename Stub, typename Request, typename Reply>
  Result<Reply> Call(Stub& stub,
                     grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                     const Request& request, Patience patience) const {
    grpc::ClientContext context;
    Prepare(context, patience);
    Reply reply;
    if (const grpc::Status status = (stub.*method)(&context, request, &reply); !status.ok()) {
      return Decode(status);
    }
    return reply;
  }

  // All pages of a list: `items(reply)` is the repeated field, `convert` makes a value of each
  // entry.
  template <typename Value, typename Stub, typename Request, typename Reply, typename Items,
            typename Convert>
  Result<std::vector<Value>> CallAllPages(Stub& stub,
                                          grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                       const Request&, Reply*),
                                          Request request, Items items, Convert convert) const {
    std::vector<Value> all;
    request.set_page_size(kPageSize);
    for (;;) {
      auto reply = Call(stub, method, request, Patience::kQuick);
      if (!reply.ok()) return reply.status();
      for (const auto& item : items(*reply)) all.push_back(convert(item));
      if (reply->next_page_token().empty()) return all;
      if (reply->next_page_token() == request.page_token()) {
        return Status(Code::kInternal, reasons::kInternal,
                      Peer() + " answers with the same page of a list again and again");
      }
      request.set_page_token(reply->next_page_token());
    }
  }

 private:
  static constexpr int kPageSize = 200;

  Connection(AttachSocket attach, std::string run_dir, const ConnectOptions& options);

  AttachSocket attach_;
  SmallTransfers small_;
  const std::string run_dir_;
  const std::chrono::milliseconds timeout_;
  const std::string cuda_library_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::BufferService::Stub> buffers_;
  std::unique_ptr<v1::NodeService::Stub> nodes_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  std::unique_ptr<v1::TransferService::Stub> transfers_;
};

// gRPC's name for a Unix socket, in which other characters than these must be escaped as in a URI.
std::string UnixTarget(const std::string& path);

}  // namespace onecopy::client
