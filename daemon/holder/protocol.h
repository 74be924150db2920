// The protocol between a daemon and the holder of its memory: packets on a SOCK_SEQPACKET Unix
// socket. Each packet is one Message; some carry one descriptor. The daemon asks, and the holder
// answers each question once.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace onecopy::holder {

// A holder serves daemons of later versions, so change this only if you must.
inline constexpr uint32_t kProtocol = 1;

enum class What : uint32_t {
  // Questions.
  kHello = 1,   // comes first; `value`: how many milliseconds to hold after this daemon is gone
  kHold,        // carries a descriptor; replaces the one under `number`
  kRelease,     // closes the descriptor under `number`, if there is one
  kNext,        // asks for the descriptor with the smallest number above `number`
  kReleaseAll,  // closes all descriptors
  // Answers.
  kDone = 16,  // to kHello: `value` is how many descriptors are held
  kItem,       // to kNext: `number` and a copy of the descriptor
  kEnd,        // to kNext: no descriptor has a number above `number`
  kBusy,       // to kHello: another daemon is still connected
  kFull,       // to kHold: the holder cannot open more files
  kUnknown,    // the holder does not know this question or protocol
};

struct Message {
  uint32_t protocol = kProtocol;
  What what = What::kHello;
  uint64_t number = 0;
  uint64_t value = 0;

  std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  static std::optional<Message> Parse(std::string_view bytes) {
    Message message;
    if (bytes.size() != sizeof message) return std::nullopt;
    std::memcpy(&message, bytes.data(), sizeof message);
    return message;
  }
};

}  // namespace onecopy::holder
