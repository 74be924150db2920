// What a daemon and the holder of its memory say to each other: packets of a SOCK_SEQPACKET Unix
// socket, each a Message, with one descriptor where that is said. The daemon asks, the holder
// answers each question once.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace onecopy::holder {

// A holder outlives daemons, so this changes only where it must.
inline constexpr uint32_t kProtocol = 1;

enum class What : uint32_t {
  kHello = 1,  // first; `value`: for how many milliseconds to hold after the daemon has gone
  kHold,       // with a descriptor, under `number`; one that was held under it goes
  kRelease,    // what is held under `number`; nothing there is no error
  kNext,       // what has the smallest number above `number`
  kReleaseAll,
  kDone = 16,  // `value` of kHello: how many descriptors are held
  kItem,       // of kNext: its `number`, and a copy of the descriptor
  kEnd,        // of kNext: there is none
  kBusy,       // of kHello: another daemon has not gone yet
  kFull,       // of kHold: the holder may open no more files
  kUnknown,    // another protocol, or no question that this holder knows
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
