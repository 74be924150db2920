// What the two ends of a transfer tell each other over its channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "onecopy/status.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/step.h"

namespace onecopy::pipeline {

// Owner → reader: slot `index` holds this chunk, which `key` opens.
struct FullMessage {
  uint32_t index = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  RemoteKey key;
};
// Reader → owner: slot `index` has been read.
struct FreeMessage {
  uint32_t index = 0;
};
// Owner → reader: nothing more will come.
struct FailedMessage {
  Status status;
};
// Owner → reader: what it took to begin is done. What lies in one place is opened by `key`; what is
// staged comes chunk by chunk.
struct ReadyMessage {
  RemoteKey key;            // empty: staged
  uint64_t slot_bytes = 0;  // staged: of a chunk, except for the last
  // That the owner is going to execute; without their node, which is its own.
  std::vector<Step> steps;
};
// Owner → reader: still there, although nothing comes. Said again and again while it is so and
// something goes on that this transfer waits for.
struct WaitingMessage {
  enum class For : uint8_t { kSlots = 1, kMemory = 2 };
  For what = For::kSlots;
  uint32_t ahead = 0;  // for slots: how many others come first
};

using Message = std::variant<FullMessage, FreeMessage, FailedMessage, ReadyMessage, WaitingMessage>;

// A failure's text is cut, so that it is no longer than Connection::kMaxMessageBytes.
std::string Encode(const Message& message);
// Nothing for bytes that are no message.
std::optional<Message> Decode(std::span<const std::byte> bytes);

// A message as texts that a connection takes: itself, or its parts in order.
std::vector<std::string> Split(std::string message);

// Puts messages together from what a connection brings.
class Joiner {
 public:
  // True when `text` is a message now; false while parts are missing. Nothing for what is neither.
  std::optional<bool> Add(std::span<const std::byte> bytes, std::string* text);

 private:
  std::string parts_;
};

}  // namespace onecopy::pipeline
