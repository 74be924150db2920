// Escapes texts in the log that may come from any client or peer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace onecopy::log {

// Longer texts are cut; what a peer says must not fill the disk.
inline constexpr size_t kMaxValueBytes = 1024;
inline constexpr size_t kMaxMessageBytes = 16 * 1024;

// Control characters, characters that reorder or hide text, and what is not UTF-8 become `\n`,
// `\x1b`, `\u202e`; everything else stays. With `quotes`, `"` and `\` are escaped too. A text of
// more than `most_bytes` is cut after so many, and the cut says how long it was.
std::string Escape(std::string_view text, size_t most_bytes, bool quotes = false);

}  // namespace onecopy::log
