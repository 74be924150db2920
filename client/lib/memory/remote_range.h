// The far end of a file copy.
#pragma once

#include <cstdint>

#include "client/lib/calls/waiter.h"
#include "onecopy/client.h"

namespace onecopy::client {

struct RemoteRange {
  BufferInfo buffer;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  // A piece of it. By the buffer's id, so that one that is made again under the same name while the
  // copy runs is not mistaken for it.
  Endpoint Piece(uint64_t at, uint64_t piece_bytes) const {
    return {buffer.node, buffer.id, offset + at, piece_bytes};
  }
  // As people call it.
  Endpoint whole() const { return {buffer.node, buffer.name, offset, bytes}; }
};

// Looks the buffer up. Blocks, as long as `waiter` lets it where there is one. Fails like
// Client::GetBuffer and Waiter::Check, and with OUT_OF_RANGE (RANGE_OUT_OF_BUFFER).
Result<RemoteRange> FindRange(Client& client, const Endpoint& endpoint,
                              const Waiter* waiter = nullptr);

}  // namespace onecopy::client
