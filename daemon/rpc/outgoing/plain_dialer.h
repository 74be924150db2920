// Connections to peers without TLS, made by ourselves: so that it is known who is at the other end
// before anything is said to it, or believed of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/base/unique_function.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/resolve.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::rpc {

// Runs the thread `dial`, which never waits for one peer.
class PlainDialer {
 public:
  using Resolver = Result<std::vector<os::HostPort>> (*)(const os::HostPort& where);
  explicit PlainDialer(Resolver resolve = &os::Resolve);
  ~PlainDialer();  // what is under way ends unanswered

  // Any thread. `done` runs once, on the thread `dial`, unless this goes before: a connection whose
  // far end has begun to speak and has passed CheckPlainPeer; UNAVAILABLE where nobody is there,
  // DEADLINE_EXCEEDED where nobody speaks within 3 s, PERMISSION_DENIED (ACCESS_DENIED) where
  // somebody else does. Several addresses, or those of a name, have as long each, and do not wait
  // for each other; the first that speaks counts.
  using Done = UniqueFunction<void(Result<os::UniqueFd>)>;
  void Dial(const std::string& addresses, Done done);  // as os::ParseHostPorts takes them

 private:
  class Attempt;
  const Resolver resolve_;
  const std::shared_ptr<os::LoopThread> thread_;
};

}  // namespace onecopy::rpc
