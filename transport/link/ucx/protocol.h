// What UCX says of an operation, and what that means for the payload: one place that knows UCX's
// words for protocols and transports.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/core/contracts/step.h"

namespace onecopy::ucx {

// How of a get payload went. Where UCX does not say it in words known here, kUnknown.
enum class Method {
  kZeroCopy,   // straight from memory to memory
  kCopyOut,    // the device wrote to UCX's own buffer, from which a CPU copied
  kEmulation,  // "software emulation": the owner's CPU sends it in messages
  kUnknown,
};

struct Protocol {
  // UCX's own words, without sizes and estimates: "zero-copy rc_verbs/rxe0:1".
  std::string description;
  Method method = Method::kUnknown;
  // "rc_verbs", "rxe0": of the transport that UCX named first; of several, all in description.
  std::string transport;
  std::vector<std::string> devices;  // without port: "rxe0"

  friend bool operator==(const Protocol&, const Protocol&) = default;
};

// Reads the text of ucp_request_query, as "flags:0x84 get() into host memory length 64 zero-copy
// rc_verbs/rxe0:1 1166.4 MB/s 54.9 us" (1.13) or "{proto|init} get into host memory length 64 …"
// (1.22). Anything else gives kUnknown, with the text as description, bounded.
Protocol ParseProtocol(std::string_view text);

// "rc_verbs", "dc_mlx5", "ud_verbs": InfiniBand and RoCE.
bool IsRdmaTransport(std::string_view transport);
// Transports that never leave the machine.
bool IsLocalTransport(std::string_view transport);

// Between which memories and nodes, by the names that receipts use.
struct GetEnds {
  std::string owner;  // node
  std::string from;
  std::string reader;  // node
  std::string to;
  bool same_machine = false;
};

// The passes of the payload that a get by `protocol` made. Never fewer than there were: a protocol
// that is not known counts as the longest one there is.
StepList StepsOf(const Protocol& protocol, const GetEnds& ends,
                 const std::function<bool(const std::string&)>& is_emulated_device);

}  // namespace onecopy::ucx
