// Discovery by etcd, version 3: each node writes its own address under a lease, and watches those
// of others.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/discovery/discovery.h"
#include "daemon/discovery/etcd/server.h"

namespace onecopy::discovery {

struct EtcdOptions {
  std::vector<EtcdServer> servers;  // one at a time is used
  EtcdSecrets secrets;
  std::string prefix;  // ends with '/'
  std::chrono::seconds lease{10};
  std::string node;     // this one
  std::string address;  // where others reach it
  // Of one reading of all entries, whatever its single calls take.
  std::chrono::milliseconds look_limit{15'000};
  // Between two readings because of entries that had no room.
  std::chrono::milliseconds look_again{60'000};
};

// Begins the thread `discovery`, which
// - keeps a lease alive, also while it reads, under which the node's entry goes when the daemon
//   does not answer; a call takes at most 3 s and a third of the lease's time,
// - writes the entry unless another node has the name; then it claims the name beside it, which
//   tells the other one, and takes it once it is free,
// - reads all entries and watches them from then on. A watch that was lost, by a compaction, too,
//   begins again with all entries; a server that fails is followed by the next one. Entries that
//   had no room (kMaxKeys) are read once half of the room is free.
// Throws std::system_error where the process may have no more threads. `sink` must outlive it.
std::unique_ptr<Discovery> StartEtcd(EtcdOptions options, Sink& sink);

}  // namespace onecopy::discovery
