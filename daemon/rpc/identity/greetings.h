// Connections in a network that have not made a call yet.
#pragma once

#include <atomic>
#include <map>
#include <string>

#include "transport/core/base/executor.h"
#include "transport/core/base/mutex.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::rpc {

// Any thread. gRPC does not say when a handshake is over; that a call has come by a connection
// does.
class Greetings {
 public:
  // By the listener: `greeted` runs, on any thread, with the first call from that address and port,
  // unless they are forgotten before.
  void Await(const os::HostPort& from, Task greeted);
  void Forget(const os::HostPort& from);

  // By each call whose caller is known: from there, as gRPC writes it.
  void Called(const std::string& from);

 private:
  std::atomic<size_t> size_{0};
  Mutex mutex_;
  std::map<std::string, Task> waiting_ ONECOPY_GUARDED_BY(mutex_);  // by address and port
};

}  // namespace onecopy::rpc
