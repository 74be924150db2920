// A daemon for tests of clients: real sockets in a folder, buffers in this process's memory, and
// transfers that copy between them when they are told to. It knows no permissions and plans
// nothing.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "onecopy/status.h"
#include "onecopy/v1/attach.pb.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "onecopy/v1/node.grpc.pb.h"
#include "onecopy/v1/transfer.grpc.pb.h"
#include "transport/os/mapping.h"
#include "transport/os/unique_fd.h"

namespace onecopy::testing {

// As the daemon's errors are on the wire.
grpc::Status ToGrpc(const Status& status);

// Any thread.
class FakeDaemon final : v1::BufferService::Service,
                         v1::NodeService::Service,
                         v1::TransferService::Service {
 public:
  struct Options {
    uint32_t protocol = 1;
    std::optional<Status> attach_error;  // the answer to every Hello
    bool attach_only = false;            // no api.sock
    int page_size = 1000;                // the most that a page has, whatever is asked for
  };

  explicit FakeDaemon(std::string run_dir, Options options);
  explicit FakeDaemon(std::string run_dir) : FakeDaemon(std::move(run_dir), Options()) {}
  ~FakeDaemon() override;

  const std::string& run_dir() const { return run_dir_; }

  // A buffer of the daemon's; `sink`: it stores nothing and reads as zeroes.
  void AddBuffer(const std::string& node, const std::string& name, uint64_t bytes,
                 bool sink = false);
  std::string Bytes(const std::string& node, const std::string& name);
  void SetBytes(const std::string& node, const std::string& name, const std::string& bytes);

  // What happens to the transfer with that number (0, 1, …), instead of succeeding.
  struct Fate {
    std::optional<Status> refuse = {};  // fails at once
    std::optional<Status> fail = {};    // starts, and fails
    bool hold = false;                  // runs until it is cancelled or Release() is called
    bool stubborn = false;              // runs on although it was cancelled, until Release()
    bool corrupt = false;               // changes a byte on the way, and does not notice
    bool no_checksum = false;           // forgets that one was asked for
    bool unconfirmed = false;           // ends its life as UNCONFIRMED
    std::string path = "tcp-direct";
  };
  void SetFate(size_t number, Fate fate);
  void Release();
  // Every call of these services fails like this from now on.
  void FailCalls(const Status& status);

  // Waits until that many transfers have been started.
  void AwaitStarted(size_t count);
  // Waits until somebody asked for the end of a transfer, or watches one.
  void AwaitCancelRequested();
  void AwaitWatched();
  // Waits until that many sessions are open.
  void AwaitSessions(size_t count);

  std::vector<v1::CreateTransferRequest> requests();
  std::vector<v1::Transfer> transfers();
  size_t buffer_count();
  std::string last_level();
  std::string last_client();
  v1::RegisterBufferRequest last_registration();

 private:
  struct Memory {
    v1::Buffer info;
    std::vector<std::byte> own;
    os::Mapping mapping;  // of a registered one
    uint64_t offset = 0;
    bool sink = false;
    std::string session;

    std::byte* data() { return own.empty() ? mapping.data() + offset : own.data(); }
  };
  struct Move {
    v1::Transfer transfer;
    uint64_t version = 1;
    Fate fate;
    v1::CreateTransferRequest request;
  };
  struct Session {
    os::UniqueFd socket;
    std::map<uint64_t, os::UniqueFd> deposits;
  };

  template <typename Request, typename Reply>
  using Handler = std::function<grpc::Status(const Request&, Reply*)>;

  void ServeAttach();
  bool Answer(const std::string& token, const v1::AttachRequest& request, os::UniqueFd fd);
  void EndSession(const std::string& token);

  grpc::Status Check(grpc::ServerContext* context, std::string* token = nullptr);
  Memory* Find(const std::string& node, const std::string& name);
  v1::Buffer Add(std::unique_ptr<Memory> memory, const std::string& name);
  Move* FindMove(const std::string& id);
  void Run(Move& move);
  void Succeed(Move& move);
  void Change(Move& move);
  std::optional<Status> Complete(v1::Endpoint& endpoint, uint64_t bytes_default);

  grpc::Status CreateBuffer(grpc::ServerContext*, const v1::CreateBufferRequest*,
                            v1::Buffer*) override;
  grpc::Status RegisterBuffer(grpc::ServerContext*, const v1::RegisterBufferRequest*,
                              v1::Buffer*) override;
  grpc::Status GetBuffer(grpc::ServerContext*, const v1::GetBufferRequest*, v1::Buffer*) override;
  grpc::Status ListBuffers(grpc::ServerContext*, const v1::ListBuffersRequest*,
                           v1::ListBuffersResponse*) override;
  grpc::Status DeleteBuffer(grpc::ServerContext*, const v1::DeleteBufferRequest*,
                            google::protobuf::Empty*) override;
  grpc::Status SumBuffer(grpc::ServerContext*, const v1::SumBufferRequest*,
                         v1::SumBufferResponse*) override;
  grpc::Status CreateGrant(grpc::ServerContext*, const v1::CreateGrantRequest*,
                           v1::Grant*) override;
  grpc::Status ListGrants(grpc::ServerContext*, const v1::ListGrantsRequest*,
                          v1::ListGrantsResponse*) override;
  grpc::Status DeleteGrant(grpc::ServerContext*, const v1::DeleteGrantRequest*,
                           google::protobuf::Empty*) override;
  grpc::Status GetNode(grpc::ServerContext*, const v1::GetNodeRequest*, v1::Node*) override;
  grpc::Status ProbeNode(grpc::ServerContext*, const v1::ProbeNodeRequest*,
                         v1::ProbeNodeResponse*) override;
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*,
                         v1::ListNodesResponse*) override;
  grpc::Status ReleaseDevice(grpc::ServerContext*, const v1::ReleaseDeviceRequest*,
                             google::protobuf::Empty*) override;
  grpc::Status SetLogLevel(grpc::ServerContext*, const v1::SetLogLevelRequest*,
                           v1::SetLogLevelResponse*) override;
  grpc::Status CreateTransfer(grpc::ServerContext*, const v1::CreateTransferRequest*,
                              v1::Transfer*) override;
  grpc::Status GetTransfer(grpc::ServerContext*, const v1::GetTransferRequest*,
                           v1::Transfer*) override;
  grpc::Status ListTransfers(grpc::ServerContext*, const v1::ListTransfersRequest*,
                             v1::ListTransfersResponse*) override;
  grpc::Status WatchTransfer(grpc::ServerContext*, const v1::WatchTransferRequest*,
                             grpc::ServerWriter<v1::Transfer>*) override;
  grpc::Status CancelTransfer(grpc::ServerContext*, const v1::CancelTransferRequest*,
                              v1::Transfer*) override;

  const std::string run_dir_;
  const Options options_;
  os::UniqueFd listener_;
  os::UniqueFd stop_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  bool stopping_ = false;
  std::map<std::string, Session> sessions_;  // by token
  uint64_t next_token_ = 1;
  uint64_t next_deposit_ = 1;
  uint64_t next_buffer_ = 1;
  std::vector<std::unique_ptr<Memory>> buffers_;
  std::map<std::string, v1::Grant> grants_;
  std::vector<std::unique_ptr<Move>> moves_;
  std::map<size_t, Fate> fates_;
  size_t attempts_ = 0;
  size_t cancels_ = 0;
  size_t watches_ = 0;
  std::optional<Status> fail_calls_;
  std::string level_ = "info";
  std::string last_client_;
  v1::RegisterBufferRequest last_registration_;

  std::unique_ptr<grpc::Server> server_;
  std::thread attach_thread_;
};

}  // namespace onecopy::testing
