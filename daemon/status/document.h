// What the status page shows, as the JSON document that its script reads.
#pragma once

#include <string>

#include "daemon/status/seen.h"

namespace onecopy::status {

// ASCII, on one line. What peers say of themselves is text in it: cut after 300 bytes, with what is
// not UTF-8 replaced. No buffer, file, id, owner or uid is in it; nothing that a peer says makes it
// longer than 4 MB, and of 64 nodes it is a tenth of that.
std::string DocumentOf(const Seen& seen);

}  // namespace onecopy::status
