// A client's sessions with its daemon. A session ends with the daemon; the client then connects
// again by itself (see Client).
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>
#include <vector>

#include "onecopy/buffer.h"
#include "onecopy/status.h"

namespace onecopy {

// Memory that a new session has registered again: the same bytes, with another id, and with the
// same name if the client chose the name.
struct RestoredBuffer {
  BufferInfo was;
  BufferInfo now;
};

// A buffer whose registration has ended, and its grants with it. The caller still has the memory,
// and can register it again.
struct LostBuffer {
  BufferInfo was;
  // UNAVAILABLE (SESSION_LOST), or why it could not be registered again. The library tries again
  // when a call names it, and in the next session.
  Status why;
};

struct SessionInfo {
  uint64_t number = 1;                   // counts the sessions
  std::vector<RestoredBuffer> restored;  // by the present session
  std::vector<LostBuffer> lost;          // until the name is registered again or deleted
};

}  // namespace onecopy
