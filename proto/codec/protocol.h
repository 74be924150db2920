// What both sides of a connection must agree on beside the messages themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "onecopy/result.h"

namespace onecopy {

// Versions of what clients and their node's daemon say to each other (attach.sock and api.sock)
// that this program speaks.
inline constexpr uint32_t kClientProtocolMin = 1;
inline constexpr uint32_t kClientProtocolMax = 1;

// What a client that speaks versions `min` to `max` and this daemon, whose program is of `version`,
// speak: the newest that both do. FAILED_PRECONDITION (PEER_INCOMPATIBLE) where there is none.
Result<uint32_t> AgreeOnClientProtocol(uint32_t min, uint32_t max, const std::string& version);

// The longest packet on attach.sock, in bytes.
inline constexpr std::size_t kMaxAttachBytes = 64 * 1024;

// What is kept of the name that a client gives its program.
inline constexpr std::size_t kMaxProgramBytes = 256;

// Metadata of calls of clients: the session's token, as attach.sock or OpenSession gave it.
inline constexpr char kSessionMetadata[] = "onecopy-session";

// Metadata of calls between daemons: the calling node's name. With TLS its certificate must be for
// that name.
inline constexpr char kNodeMetadata[] = "onecopy-node";

}  // namespace onecopy
