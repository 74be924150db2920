// Bounds of what is said between programs, for servers and callers alike.
#pragma once

namespace onecopy::rpc {

// Messages of ours are small; lists are cut into pages.
inline constexpr int kMaxMessageBytes = 4 << 20;
inline constexpr int kMaxMetadataBytes = 16 << 10;

}  // namespace onecopy::rpc
