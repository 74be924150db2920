// One crossing from a node to another, as a probe measures it and a path uses it.
#pragma once

#include <compare>
#include <string>

namespace onecopy::plan {

// The memory at one end, as the network device meets it: pinned slots are host memory.
struct WireEnd {
  std::string kind;
  std::string device;  // UUID of a GPU; empty for host memory

  friend auto operator<=>(const WireEnd&, const WireEnd&) = default;
};

struct Wire {
  std::string link;  // empty: no wire
  WireEnd source;
  WireEnd destination;

  friend auto operator<=>(const Wire&, const Wire&) = default;
};

// A probe uses memory that it allocates. What only clients have (a dma-buf of somebody's) shows
// what it can do when it is registered.
inline bool CanProbe(const WireEnd& end) { return end.kind == "host" || !end.device.empty(); }
inline bool CanProbe(const Wire& wire) {
  return CanProbe(wire.source) && CanProbe(wire.destination);
}

}  // namespace onecopy::plan
