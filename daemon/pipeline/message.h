// What the two ends of a transfer tell each other over its channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "transport/core/status.h"

namespace onecopy::pipeline {

// Owner → reader: slot `index` holds this chunk.
struct FullMessage {
  uint32_t index = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
// Reader → owner: slot `index` has been read.
struct FreeMessage {
  uint32_t index = 0;
};
// Owner → reader: nothing more will come.
struct FailedMessage {
  Status status;
};

using Message = std::variant<FullMessage, FreeMessage, FailedMessage>;

// Fits Connection::kMaxMessageBytes: a failure's text is cut.
std::string Encode(const Message& message);
// Nothing for bytes that are no message.
std::optional<Message> Decode(std::span<const std::byte> bytes);

}  // namespace onecopy::pipeline
