// Text for protobuf's string fields, which take UTF-8 only: a message with anything else in one of
// them is refused whole by its reader.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace onecopy {

// For texts that are only shown: `text` with every byte that is not part of valid UTF-8 replaced by
// '?'. Never for one that names something, as it would then name something else.
std::string ToUtf8(std::string_view text);

// Likewise for texts that are only shown: the beginning of `utf8`, which must be valid, of at most
// `most_bytes`, no character cut in two, "..." at the end where something was left out and there is
// room for it.
std::string CutUtf8(std::string_view utf8, size_t most_bytes);

}  // namespace onecopy
