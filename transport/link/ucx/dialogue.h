// The words between the two ends of a connection, in the order in which they were said.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transport/core/toolkit/connection_home.h"
#include "transport/link/ucx/worker.h"

namespace onecopy::ucx {

using Home = ConnectionHome<os::EventLoop>;

// UCX does not promise that its active messages arrive in order, so they are numbered. On the
// worker's thread.
class Dialogue {
 public:
  Dialogue(Worker& worker, EndId far) : worker_(worker), far_(far) {}

  // The way to the far end; before anything else here.
  void Start(EndpointRef endpoint);
  const EndpointRef& endpoint() const { return endpoint_; }

  // The far end listens from now on; what was said before goes now.
  void Open();
  bool open() const { return open_; }
  void Tell(MessageKind kind, uint64_t key = 0, std::string text = {});

  // A message that has arrived. Fails where too many have come before one that is missing.
  Status Put(Message message);
  // The next one in order, if it is there.
  std::optional<Message> Next();
  // When the last message arrived, or Start was called.
  os::Clock::time_point heard() const { return heard_; }

 private:
  Worker& worker_;
  const EndId far_;
  EndpointRef endpoint_;
  bool open_ = false;
  std::vector<Message> unsent_;  // until it is open
  uint64_t next_sent_ = 0;
  uint64_t next_arriving_ = 0;
  std::map<uint64_t, Message> early_;
  os::Clock::time_point heard_{};
};

}  // namespace onecopy::ucx
