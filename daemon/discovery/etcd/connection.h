// Calls of one server of etcd, by gRPC.
#pragma once

#include <etcd.grpc.pb.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/discovery/etcd/server.h"
#include "onecopy/result.h"
#include "transport/core/base/mutex.h"

namespace onecopy::discovery {

// Ends calls that are under way, and those that begin later, until it is told otherwise. Any
// thread.
class CallStop {
 public:
  using WallClock = std::chrono::system_clock;

  void Stop();
  // Calls may begin again, and all of them end by that time.
  void Resume(WallClock::time_point until);
  WallClock::time_point until() const;
  // A call's context, while the call runs.
  class Running {
   public:
    Running(CallStop& stop, grpc::ClientContext& context);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    CallStop& stop_;
    grpc::ClientContext& context_;
  };

 private:
  mutable Mutex mutex_;
  bool stopped_ ONECOPY_GUARDED_BY(mutex_) = false;
  WallClock::time_point until_ ONECOPY_GUARDED_BY(mutex_) = WallClock::time_point::max();
  std::set<grpc::ClientContext*> running_ ONECOPY_GUARDED_BY(mutex_);
};

// One thread, which waits for the answers. Each call is bounded in time. Fails with UNAVAILABLE
// (IO_ERROR) where the server is out of reach or has no leader, PERMISSION_DENIED or
// UNAUTHENTICATED (ACCESS_DENIED) where user, password or certificate are refused, OUT_OF_RANGE
// where the revision is gone, RESOURCE_EXHAUSTED where the answer is too large, and others, with a
// remedy.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  // Reads the files, and asks for a user's token. A call takes at most `call_limit`. `stop` must
  // outlive the connection.
  static Result<std::unique_ptr<Connection>> Open(const EtcdServer& server,
                                                  const EtcdSecrets& secrets,
                                                  std::chrono::milliseconds call_limit,
                                                  CallStop& stop);
  ~Connection();

  Result<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request);
  Result<etcdserverpb::TxnResponse> Transact(const etcdserverpb::TxnRequest& request);
  // A new lease; its id.
  Result<int64_t> Grant(std::chrono::seconds lasts);
  // False: there is no such lease any more.
  Result<bool> KeepAlive(int64_t lease);
  Status Revoke(int64_t lease);

  // Changes of the keys from `key` to `end` from that revision on. One watch at a time.
  void Watch(const std::string& key, const std::string& end, int64_t revision);
  // The next answer to it, or nothing by that time. After a failure there is no watch any more.
  Result<std::optional<etcdserverpb::WatchResponse>> NextChange(Clock::time_point until);
  void EndWatch();

 private:
  struct Watching;
  Connection(EtcdServer server, std::chrono::milliseconds call_limit, CallStop& stop);

  Status Authenticate(const EtcdSecrets& secrets);
  void Prepare(grpc::ClientContext& context) const;
  Status ToStatus(const grpc::Status& status, const char* what) const;

  const EtcdServer server_;
  const std::chrono::milliseconds call_limit_;
  CallStop& stop_;
  std::shared_ptr<grpc::Channel> channel_;
  std::string token_;
  std::unique_ptr<Watching> watching_;
};

}  // namespace onecopy::discovery
