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
  // Buffers or ranges. A buffer must have at least the length of the source; a range with `bytes`,
  // exactly that length.
  std::vector<Endpoint> destinations = {};
  Policy policy = {};                                      // for every transfer
  bool checksum = false;                                   // for every transfer
  std::optional<std::chrono::milliseconds> deadline = {};  // of the whole broadcast
  TraceContext trace = {};  // of every transfer; see TransferRequest::trace
  // How long the library tries again to reach a destination that no longer answers. The others do
  // not wait for it; the call does.
  std::chrono::milliseconds retry_for = std::chrono::seconds(30);
  // How much moves at a time from node to node, at least 1/4096 of the payload. 0: the library
  // chooses. It makes 32 pieces for each destination. A piece is at least what the slowest path
  // moves in 2 ms, and 256 KiB to 256 MiB. A payload of at most 1 MiB is one piece, which each
  // destination takes from the source.
  uint64_t piece_bytes = 0;
};

// What a destination took from one buffer, and why it stopped.
struct BroadcastOrigin {
  std::string from;    // "NODE:NAME"
  uint64_t bytes = 0;  // taken from there
  // Not OK: why the destination stopped taking from there, at least for a while.
  Status left = {};
};

// The result for one destination.
struct BroadcastCopy {
  Endpoint destination;
  // OK: all bytes are there. Else why some are missing; the bytes that have arrived stay.
  Status outcome;
  uint64_t bytes = 0;  // have arrived
  // Of all transfers into it, merged by MergeReceipt. `seconds` and `asked_seconds` run from the
  // beginning of the broadcast to the arrival of the last byte here. With several pieces,
  // `checksum` has no value and says only whether all were equal.
  Receipt receipt;
  std::vector<BroadcastOrigin> origins;  // in the order of the chain, the source first
};

// Called on the calling thread, now and then, with the bytes that have arrived at all destinations
// together, and their total. An exception in it cancels the broadcast.
using OnBroadcast = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

}  // namespace onecopy
