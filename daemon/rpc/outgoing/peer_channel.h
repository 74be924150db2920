// The gRPC channel to another daemon.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/rpc/identity/tls.h"
#include "daemon/rpc/outgoing/plain_dialer.h"
#include "onecopy/result.h"
#include "onecopy/v1/peer.grpc.pb.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/mutex.h"
#include "transport/core/base/unique_function.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::rpc {

// A method of PeerService, for errors, and how long it may take.
struct PeerMethod {
  const char* name;
  std::chrono::milliseconds timeout;
};

// Engine thread.
class PeerChannel : public std::enable_shared_from_this<PeerChannel> {
 public:
  using Stub = v1::PeerService::Stub;

  // `address`: as os::ParseHostPorts takes it. `engine` is the thread's executor, and must outlive
  // this until GiveUp. `dialer` connects where `credentials` have no TLS.
  PeerChannel(std::string name, std::string address, Credentials credentials, Executor& engine,
              PlainDialer& dialer);

  // A connection, or what will be one.
  struct Line {
    std::shared_ptr<Stub> stub;
    std::shared_ptr<grpc::Channel> channel;
    std::string peer;  // its far end as gRPC writes it, where gRPC cannot tell; else empty
    std::shared_ptr<ServerProof> proof;  // what was made of its certificate; empty without TLS
  };
  // One that has not failed; `use` runs at once where there is one. gRPC would make calls wait for
  // its own attempts to connect, and fail at once between them; here a failed channel is thrown
  // away, so that each call after it really tries, and when to try is the engine's choice alone. So
  // is one whose peer is not to be believed any more (ServerProof). Calls share an attempt to
  // connect while it is young; an old one may have lost its packets on a wire that is whole again.
  void Connect(UniqueFunction<void(Result<Line>)> use);

  // Whoever waits for a connection is answered with CANCELLED, later.
  void GiveUp();

  // The call's failure as ours; the peer's own errors stay as they are. Throws the channel away
  // where the failure shows that it does not work.
  Status Explain(const PeerMethod& method, const Line& used, const grpc::Status& status);

  // An answer that makes no sense.
  Status BadReply(const PeerMethod& method, const Status& why) const;

 private:
  std::string Who() const { return "peer " + name_ + " (" + address_ + ")"; }
  using Users = std::vector<UniqueFunction<void(Result<Line>)>>;
  struct Attempt {
    os::Clock::time_point begun;
    Users waiting;
  };

  Line Secured();
  std::string Target();
  // Whether gRPC has tried to connect for longer than a call should wait for.
  bool ConnectsInVain() const;
  void Dialled(uint64_t attempt, Result<os::UniqueFd> fd);
  static void Answer(Users users, const Result<Line>& line);
  Status ExplainDial(const Status& status) const;

  // What the dialer's thread may still need after this has gone.
  struct Home {
    Mutex mutex;
    Executor* engine ONECOPY_GUARDED_BY(mutex) = nullptr;  // null after GiveUp
  };

  const std::string name_;
  const std::string address_;
  const Credentials credentials_;
  Executor& engine_;
  PlainDialer& dialer_;
  const std::shared_ptr<Home> home_ = std::make_shared<Home>();
  Line line_;                             // without a stub: the next call makes a channel
  uint64_t secured_ = 0;                  // channels with TLS to one of several addresses
  os::Clock::time_point line_begun_{};    // of one with TLS, which connects by itself
  std::map<uint64_t, Attempt> dialling_;  // without TLS, by number: the last is the youngest
  uint64_t attempts_ = 0;
};

}  // namespace onecopy::rpc
