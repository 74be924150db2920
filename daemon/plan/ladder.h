// The ladder of paths: every name, best first.
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

// A file by its drive into memory of a GPU near to that, and from there over NVLink to another one.
inline constexpr std::string_view kThroughNearGpu = "storage-direct+peer-direct";

inline constexpr std::array<Rung, 12> kLadder = {{
    {"rdma-direct", Carrier::kRdma, Shape::kDirect},
    {"peer-direct", Carrier::kPeer, Shape::kDirect},
    {"local", Carrier::kLocal, Shape::kDirect},
    {"storage-direct", Carrier::kStorage, Shape::kDirect},
    {kThroughNearGpu, Carrier::kStorage, Shape::kDirect},
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

// A file and memory of another node: what its own node does for it, then how the link goes on.
inline constexpr std::string_view kFileThenLink = "storage-bounce+";

// Whether a rung may follow that: a file has no memory that a link reaches in place.
constexpr bool MayFollowFile(const Rung& rung) {
  return (rung.carrier == Carrier::kRdma || rung.carrier == Carrier::kTcp) &&
         rung.shape != Shape::kDirect;
}

constexpr bool HasFileThenLink(std::string_view path) { return path.starts_with(kFileThenLink); }

// The rung's own name in the name of such a path, and of any other path all of it.
constexpr std::string_view RungNameOf(std::string_view path) {
  return HasFileThenLink(path) ? path.substr(kFileThenLink.size()) : path;
}

// What carries the bytes on the path of that name, between nodes if anything does; nothing for a
// name that is not on the ladder.
constexpr std::optional<Carrier> CarrierOf(std::string_view path) {
  for (const Rung& rung : kLadder) {
    if (rung.name == RungNameOf(path)) return rung.carrier;
  }
  return std::nullopt;
}

// Whether a file is one of its ends.
constexpr bool HasFile(std::string_view path) {
  return HasFileThenLink(path) || CarrierOf(path) == Carrier::kStorage;
}

}  // namespace onecopy::plan
