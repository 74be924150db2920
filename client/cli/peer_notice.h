// Tells, while a copy gets nowhere, that a node which it needs does not answer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "client/cli/endpoint.h"
#include "onecopy/client.h"

namespace onecopy::cli {

// A thread that asks the other nodes of the two ends whenever nothing has moved for half a second,
// and says within a second of silence that one does not answer, once, and once that it does again.
class PeerNotice {
 public:
  // Both must outlive it. Says nothing where neither end is on another node, or not `shown`.
  PeerNotice(Client& client, const std::vector<ParsedEndpoint>& ends, std::ostream& err,
             bool shown);
  ~PeerNotice();  // at once, whatever is being asked
  PeerNotice(const PeerNotice&) = delete;
  PeerNotice& operator=(const PeerNotice&) = delete;

  // Any thread: so much has arrived.
  void Progress(uint64_t bytes_done);

 private:
  struct Peer {
    std::string node;
    std::string buffer;
    bool silent = false;  // and this was said
  };

  void Run(const std::stop_token& stop);
  void Ask(Peer& peer, const std::stop_token& stop);

  Client& client_;
  std::ostream& err_;
  std::vector<Peer> peers_;
  std::atomic<uint64_t> bytes_done_ = 0;
  std::jthread thread_;
};

}  // namespace onecopy::cli
