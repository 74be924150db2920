// A daemon in good standing that asks for more than it was given: PeerService, spoken by a test.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "onecopy/v1/peer.grpc.pb.h"
#include "tests/support/node.h"

namespace onecopy::testing {

class HostilePeer {
 public:
  // Calls `node` by the name `name`, in plain text unless there are credentials.
  explicit HostilePeer(const Node& node, std::string name = "mallory",
                       std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr);

  v1::PeerService::Stub& stub() { return *stub_; }
  // Says who calls, and waits a minute at most.
  std::unique_ptr<grpc::ClientContext> Context() const;

  struct Range {
    std::string buffer;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  // Asks for a ticket with which `reader` may read that range on behalf of `uid`.
  grpc::Status Reserve(uint32_t uid, const Range& range, const std::string& reader,
                       v1::ReserveResponse* response);
  // Has the node itself move what the reservation says into a buffer of its own.
  grpc::Status Start(uint32_t uid, const v1::ReserveResponse& reservation,
                     const std::string& destination, v1::Transfer* started,
                     const std::string& path = {});
  // Waits for the end of a transfer that the node receives.
  v1::Transfer WaitForEnd(const std::string& id);

  const std::string& transfer_id() const { return transfer_id_; }

 private:
  const std::string name_;
  const std::unique_ptr<v1::PeerService::Stub> stub_;
  std::string transfer_id_;  // of the last Reserve
  int next_ = 1;
};

// A node that answers Hello with what it likes, so that it becomes a peer of whoever it calls.
class HostileNode final : public v1::PeerService::Service {
 public:
  HostileNode(std::string name, std::string uid_domain,
              std::shared_ptr<grpc::ServerCredentials> credentials);
  ~HostileNode() override;

  // What it says of itself.
  void Introduce(v1::Introduction* self) const;
  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest*,
                     v1::HelloResponse* response) override;

 private:
  const std::string name_;
  const std::string uid_domain_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace onecopy::testing
