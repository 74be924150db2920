// A client of attach.sock that has a ring and writes there whatever a test wants.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/v1/attach.pb.h"
#include "tests/support/catch.h"
#include "tests/support/node.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"
#include "transport/ring/client_end.h"

namespace onecopy::testing {

class RawRing {
 public:
  explicit RawRing(const Node& node);

  // What names a way between two buffers of the node.
  uint64_t OpenRoute(const std::string& source, const std::string& destination);

  ring::Shared& shared() { return *reinterpret_cast<ring::Shared*>(mapping_.data()); }
  ring::ClientEnd& end() { return *end_; }
  int memory() const { return memory_.get(); }
  const std::string& prefix() const { return prefix_; }
  // A byte on the ring's socket, asked for or not.
  void Wake() const;
  // Blocks.
  ring::Ended Next();
  // Blocks until the daemon has ended the ring.
  ring::State AwaitEnd();
  void CloseSession() { attach_.Reset(); }

 private:
  v1::AttachReply Ask(const v1::AttachRequest& request, std::vector<os::UniqueFd>* fds = nullptr);

  os::UniqueFd attach_;
  os::UniqueFd memory_;
  os::UniqueFd wake_;
  os::Mapping mapping_;
  std::string prefix_;
  std::unique_ptr<ring::ClientEnd> end_;
};

}  // namespace onecopy::testing
