// An end of small transfers, as its owner's rights have it.
#pragma once

#include <optional>

#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"

namespace onecopy::engine {

// A buffer, and the largest range of it that the user may use and that contains the requested
// range.
struct RingEnd {
  Buffer* buffer = nullptr;
  ByteRange allowed;
  std::optional<GrantId> grant;

  // Its length, where all of it may be used, else 0.
  uint64_t whole() const { return allowed == ByteRange{0, buffer->bytes} ? buffer->bytes : 0; }
  // Its name where a client registered it, else empty.
  std::string client_buffer() const { return buffer->registered ? buffer->name : std::string(); }
};

// What a transfer from that end of a buffer moves.
uint64_t LengthOf(const Endpoint& source, uint64_t buffer_bytes);

// Engine thread. Fails as a transfer of that range would.
Result<RingEnd> FindRingEnd(Buffers& buffers, Grants& grants, const Principal& who,
                            const Endpoint& end, Access access);

}  // namespace onecopy::engine
