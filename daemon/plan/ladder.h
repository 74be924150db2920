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
  std::string_view route;  // for people
};

inline constexpr std::array<Rung, 11> kLadder = {{
    {"rdma-direct", Carrier::kRdma, Shape::kDirect, "memory, NIC, wire, NIC, memory"},
    {"peer-direct", Carrier::kPeer, Shape::kDirect, "GPU to GPU in one node"},
    {"local", Carrier::kLocal, Shape::kDirect, "one copy inside a node"},
    {"storage-direct", Carrier::kStorage, Shape::kDirect, "file to GPU"},
    {"rdma-bounce", Carrier::kRdma, Shape::kBounce, "RDMA with pinned host memory on one side"},
    {"peer-bounce", Carrier::kPeer, Shape::kBounce, "through pinned host memory in one node"},
    {"storage-bounce", Carrier::kStorage, Shape::kBounce, "file, pinned host, GPU"},
    {"rdma-staged", Carrier::kRdma, Shape::kStaged, "RDMA between pinned host memories"},
    {"tcp-direct", Carrier::kTcp, Shape::kDirect, "host, kernel, wire, kernel, host"},
    {"tcp-bounce", Carrier::kTcp, Shape::kBounce, "sockets with pinned host memory on one side"},
    {"tcp-staged", Carrier::kTcp, Shape::kStaged, "sockets with pinned host memory on both sides"},
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
