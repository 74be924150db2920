// One notification as the messages in which it goes: it may be longer than a message is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::nixl {

// The most that one may have.
inline constexpr size_t kMaxNoteBytes = size_t{16} << 20;

// The messages for `text` from `agent`, to be sent one after another; `number` is this sender's
// alone. INVALID_ARGUMENT (BAD_SIZE) for more than kMaxNoteBytes, or an agent's name that leaves no
// room for it.
Result<std::vector<std::string>> SplitNote(const std::string& agent, const std::string& number,
                                           const std::string& text);

// Puts messages together again. What no SplitNote made is left out, and bounded is what it keeps of
// senders that stopped half-way.
class NoteReader {
 public:
  // Agent and text, where the message completed them.
  std::optional<std::pair<std::string, std::string>> Add(std::string_view message);

 private:
  struct Part {
    std::string text;
    uint64_t parts = 0;  // that have come
    uint64_t begun = 0;  // when, in numbers of begun ones
  };
  std::map<std::string, Part> begun_;  // by agent and number
  uint64_t count_ = 0;
};

}  // namespace onecopy::nixl
