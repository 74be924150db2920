// What the two ends of a connection tell each other in UCX's active messages: texts of transfers,
// and what they need to agree on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/link/ucx/offer.h"

namespace onecopy::ucx {

enum class MessageKind : uint8_t {
  kHello = 1,  // reader: here I am
  kWelcome,    // owner: gets may begin
  kText,       // either: `key` is the channel
  kExport,     // owner: `key` may be got; the text is an ExportInfo
  kExported,   // reader: has taken that; a text is why it cannot
  kRevoke,     // owner: `key` may not be got any more
  kRevoked,    // reader: gets no more of it
  kBye,        // either: no more from here; the text is why
  kByeToo,     // either: nothing is under way any more, the connection ends
  kPing,       // either: still there?
  kPong,
};

struct Message {
  MessageKind kind = MessageKind::kPing;
  EndId to = 0;           // the end that it is for
  uint64_t sequence = 0;  // counts the messages to that end, from 0
  uint64_t key = 0;
  std::string text;

  friend bool operator==(const Message&, const Message&) = default;
};

inline constexpr size_t kMaxText = 16 * 1024;

std::string Encode(const Message& message);
std::optional<Message> DecodeMessage(std::string_view bytes);

// What a reader needs to know of an export.
struct ExportInfo {
  uint64_t address = 0;  // of its first byte, in the owner's process
  uint64_t bytes = 0;
  std::string memory;  // its name in a receipt's steps
  std::string rkey;    // UCX's, packed

  friend bool operator==(const ExportInfo&, const ExportInfo&) = default;
};

std::string Encode(const ExportInfo& info);
std::optional<ExportInfo> DecodeExportInfo(std::string_view bytes);

}  // namespace onecopy::ucx
