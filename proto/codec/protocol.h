// What both sides of a connection must agree on beside the messages themselves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onecopy {

// Versions of what clients and their node's daemon say to each other (attach.sock and api.sock)
// that this program speaks.
inline constexpr uint32_t kClientProtocolMin = 1;
inline constexpr uint32_t kClientProtocolMax = 1;

// The longest packet on attach.sock, in bytes.
inline constexpr std::size_t kMaxAttachBytes = 64 * 1024;

// Metadata of calls on api.sock: the session's token, as attach.sock gave it.
inline constexpr char kSessionMetadata[] = "onecopy-session";

// Metadata of calls between daemons: the calling node's name. With TLS its certificate must be for
// that name.
inline constexpr char kNodeMetadata[] = "onecopy-node";

}  // namespace onecopy
