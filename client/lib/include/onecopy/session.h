// What a client's sessions with its daemon have come to. A session ends with the daemon; a client
// then connects again by itself (see Client).
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>
#include <vector>

#include "onecopy/buffer.h"
#include "onecopy/status.h"

namespace onecopy {

// Memory that the client had registered, and that a new session has registered again: the same
// bytes, under another id, and under the same name where the client chose that.
struct RestoredBuffer {
  BufferInfo was;
  BufferInfo now;
};

// Memory that the client had registered, and that no session knows any more. The caller still has
// it and can register it again. Grants on it are gone, too.
struct LostBuffer {
  BufferInfo was;
  // UNAVAILABLE (SESSION_LOST), or why it could not be registered again, which is tried again when
  // a call names it, and by the next session.
  Status why;
};

struct SessionInfo {
  uint64_t number = 1;                   // one more with each session
  std::vector<RestoredBuffer> restored;  // since the present session began
  std::vector<LostBuffer> lost;          // until one of that name is registered or deleted
};

}  // namespace onecopy
