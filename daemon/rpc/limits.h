// Bounds of what is said between programs, for servers and callers alike.
#pragma once

namespace onecopy::rpc {

// Messages of ours are small; lists are cut into pages.
inline constexpr int kMostMessageBytes = 4 << 20;
inline constexpr int kMostMetadataBytes = 16 << 10;

}  // namespace onecopy::rpc
