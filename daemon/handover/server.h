// Hands memory to other daemons of this host.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "onecopy/result.h"
#include "transport/core/contracts/import_request.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/sockets/acceptor.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::handover {

// Where an importer finds what it may have, once.
struct Address {
  std::string name;  // of the abstract Unix socket
  std::string token;
};

// The loop's thread only. Listens from the first offer on.
class Server {
 public:
  struct Limits {
    size_t most_offers = 256;                   // that no daemon has taken yet
    size_t most_connections = 32;               // that have not sent a request yet
    std::chrono::milliseconds lifetime{10000};  // of an offer
    std::chrono::milliseconds patience{2000};   // with a connection
  };

  // `loop` must outlive it.
  explicit Server(os::EventLoop& loop);
  Server(os::EventLoop& loop, Limits limits);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Keeps `memory` and the descriptor that belongs to it until a process comes with the token.
  // RESOURCE_EXHAUSTED (QUOTA) where too many wait.
  Result<Address> Offer(const ImportRequest& memory, os::UniqueFd fd);
  // Takes back what has not been fetched, and listens no more.
  void Clear();

 private:
  struct Offered {
    ImportRequest memory;
    os::UniqueFd fd;
    os::EventLoop::TimerId timer = 0;
  };
  struct Connection {
    os::UniqueFd socket;
    os::EventLoop::TimerId timer = 0;
  };

  Status Listen();
  void Connected(os::UniqueFd socket);
  void OnRequest(uint64_t number);
  std::string Answer(const std::string& request, os::UniqueFd* fd);
  void Close(uint64_t number);

  os::EventLoop& loop_;
  const Limits limits_;
  std::string name_;
  std::unique_ptr<os::Acceptor> acceptor_;
  std::map<std::string, Offered> offers_;  // by token
  std::map<uint64_t, Connection> connections_;
  uint64_t next_ = 1;
};

}  // namespace onecopy::handover
