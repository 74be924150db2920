// The ladder of paths: every name there is, in the order in which they sound good.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace onecopy::plan {

// What carries the bytes between the two ends.
enum class Carrier {
  kLocal,    // one memory's copy inside a node, at least one end host memory or both on one GPU
  kPeer,     // between two GPUs of one node
  kRdma,     // a link whose remote side takes no part
  kTcp,      // sockets
  kStorage,  // a file
};

// How many host buffers of ours lie between.
enum class Shape { kDirect, kBounce, kStaged };

struct Rung {
  std::string_view name;
  Carrier carrier;
  Shape shape;
};

inline constexpr std::array<Rung, 11> kLadder = {{
    {"rdma-direct", Carrier::kRdma, Shape::kDirect},
    {"peer-direct", Carrier::kPeer, Shape::kDirect},
    {"local", Carrier::kLocal, Shape::kDirect},
    {"storage-direct", Carrier::kStorage, Shape::kDirect},
    {"rdma-bounce", Carrier::kRdma, Shape::kBounce},
    {"peer-bounce", Carrier::kPeer, Shape::kBounce},
    {"storage-bounce", Carrier::kStorage, Shape::kBounce},
    {"rdma-staged", Carrier::kRdma, Shape::kStaged},
    {"tcp-direct", Carrier::kTcp, Shape::kDirect},
    {"tcp-bounce", Carrier::kTcp, Shape::kBounce},
    {"tcp-staged", Carrier::kTcp, Shape::kStaged},
}};

// The links of the rdma rungs, by name.
inline constexpr std::array<std::string_view, 2> kRdmaLinks = {"verbs", "ucx"};

// What carries the bytes on the path of that name; nothing for a name that is not on the ladder.
constexpr std::optional<Carrier> CarrierOf(std::string_view path) {
  for (const Rung& rung : kLadder) {
    if (rung.name == path) return rung.carrier;
  }
  return std::nullopt;
}

}  // namespace onecopy::plan
