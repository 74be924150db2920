// Bounds of what is said between programs, for servers and callers alike.
#pragma once

namespace onecopy::rpc {

// Messages of ours are small, and lists are cut into pages, but for a transfer of as many ranges as
// there may be (kMaxRanges), each unlike the others at both ends: 10 MiB, of blocks of one
// length 2.
inline constexpr int kMaxMessageBytes = 16 << 20;
// An answer of another daemon; pages of lists end at 256 KiB. A peer is not trusted to keep to
// that.
inline constexpr int kMaxReplyBytes = 1 << 20;
inline constexpr int kMaxMetadataBytes = 16 << 10;

}  // namespace onecopy::rpc
