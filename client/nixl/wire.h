// What agents tell each other through NIXL's metadata, as text. It has no secrets: names of nodes
// and buffers are useless without access rights.
#pragma once

#include <string>
#include <string_view>

#include "onecopy/result.h"

namespace onecopy::nixl {

// Of an agent: where it is.
struct AgentPlace {
  std::string node;
  std::string mailbox;  // the buffer there to which its notifications go
  std::string boot_id;  // of the node's daemon, with which the mailbox was made

  friend bool operator==(const AgentPlace&, const AgentPlace&) = default;
};

// Of a descriptor that an agent registered: where it lies in which buffer of its node.
struct MemoryPlace {
  std::string buffer;  // empty: it has no bytes
  uint64_t offset_bytes = 0;

  friend bool operator==(const MemoryPlace&, const MemoryPlace&) = default;
};

std::string Encode(const AgentPlace& place);
std::string Encode(const MemoryPlace& place);

// INVALID_ARGUMENT (BAD_ARGUMENT) for what no agent of this version wrote.
Result<AgentPlace> DecodeAgent(std::string_view text);
Result<MemoryPlace> DecodeMemory(std::string_view text);

}  // namespace onecopy::nixl
