// What a client may ask for on attach.sock beside its session: a ring for small transfers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/engine/api/types.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::engine {

// What the client gets of its ring.
struct RingGiven {
  os::UniqueFd memory;
  os::UniqueFd socket;
  std::string prefix;  // submission 26 is transfer "<prefix>-1a"
  std::chrono::nanoseconds spin{};
  std::string owner;  // of its transfers
};

// A way between two buffers that submissions may name.
struct RingRoute {
  uint64_t word = 0;          // as submissions name it
  Endpoint source;            // what it may read: submissions count offsets in the buffer
  Endpoint destination;       // what it may write
  uint64_t max_bytes = 0;     // of one submission
  uint64_t source_bytes = 0;  // of its buffer; 0 where that may not be read as a whole
  Plan plan;
  uint64_t max_list_bytes = 0;   // of a submission of many pieces; 0: it carries none
  std::vector<Step> list_steps;  // of such a one; what a plan says is of one piece
  bool sums = false;  // whether submissions of at most ring::kMaxBytes may ask for a checksum
};

// Engine thread. Every reply comes exactly once, on the engine's thread.
class RingApi {
 public:
  virtual ~RingApi() = default;

  // The session's ring: one at most. A second one takes the place of a first that has no routes.
  virtual void OpenRing(const SessionId& session, Reply<RingGiven> reply) = 0;
  // Fails as a transfer between the two would, and with NOT_APPLICABLE for one that no ring
  // carries: through slots, or of more bytes than this route would. A source without a length
  // means its buffer, from the offset to the end.
  virtual void OpenRoute(const SessionId& session, Endpoint source, Endpoint destination,
                         Reply<RingRoute> reply) = 0;
};

}  // namespace onecopy::engine
