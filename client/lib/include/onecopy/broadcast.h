// The same bytes into buffers of many nodes: Client::Broadcast.
//
//   auto copies = client->Broadcast({.source = {"west", "weights"},
//                                    .destinations = {{"a", "weights"}, {"b", "weights"}}});
//   if (!copies) return Fail(copies.status());  // no byte has moved
//   for (const onecopy::BroadcastCopy& copy : *copies) {
//     if (!copy.outcome) std::cerr << copy.outcome << "\n";
//   }
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/status.h"
#include "onecopy/transfer.h"

namespace onecopy {

struct BroadcastRequest {
  Endpoint source = {};  // a buffer of any node, or a range of it
  // Buffers, each at least as long, or ranges of them; one whose `bytes` are given is as long.
  std::vector<Endpoint> destinations = {};
  Policy policy = {};                                      // of every transfer
  bool checksum = false;                                   // of every transfer
  std::optional<std::chrono::milliseconds> deadline = {};  // of the whole
  // How long a destination that no longer answers is tried again before it has failed. The others
  // do not wait for it; the call does.
  std::chrono::milliseconds retry_for = std::chrono::seconds(30);
  // How much moves at a time, from node to node; at least a 4,096th of the payload. 0: 32 pieces
  // times the number of destinations, each at least what the slowest way moves in 2 ms, from 256
  // KiB to 256 MiB; a payload of at most 1 MiB in one piece, which each destination takes from the
  // source.
  uint64_t piece_bytes = 0;
};

// What a destination took from one buffer, and why it took no more from it.
struct BroadcastOrigin {
  std::string from;    // "NODE:NAME"
  uint64_t bytes = 0;  // which came from there
  // Not OK: the destination stopped taking from there for this reason, at least for a while.
  Status left = {};
};

// What one destination came to.
struct BroadcastCopy {
  Endpoint destination;
  // OK: all bytes are there. Else why they are not; what has arrived stays.
  Status outcome;
  uint64_t bytes = 0;  // that have arrived
  // Of all transfers into it, merged as MergeReceipt does. `seconds` and `asked_seconds` run from
  // the broadcast's beginning to the last byte's arrival here. `checksum` of several pieces has no
  // value, and says whether all were equal.
  Receipt receipt;
  std::vector<BroadcastOrigin> origins;  // in the order of the chain, the source first
};

// On the calling thread, now and then: the bytes that have arrived, of all destinations together,
// and how many there are. An exception that leaves it cancels what is under way.
using OnBroadcast = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

}  // namespace onecopy
