// Which pairs of buffers the session's ring carries transfers between.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/lib/ring/ring_pause.h"
#include "onecopy/range.h"
#include "onecopy/transfer.h"

namespace onecopy::client {

// One pair, as the daemon answered.
struct Route {
  uint64_t word = 0;
  std::string source_node;
  std::string source;  // the buffers' names
  std::string destination_node;
  std::string destination;
  bool one_buffer = false;
  ByteRange from;  // what submissions may read, and write
  ByteRange to;
  uint64_t max_bytes = 0;       // of one submission
  uint64_t max_list_bytes = 0;  // of one of many pieces; 0: it carries none
  uint64_t source_bytes = 0;    // of its buffer; 0: not known
  bool sums = false;            // one piece of at most ring::kMaxBytes may ask for a checksum
  std::string path;
  std::string link;  // empty inside a node
  std::vector<Step> steps;
  std::vector<Step> list_steps;  // of a submission of many pieces
  mutable RouteRate rate;        // of what it has carried

  // Whether a daemon would take this path under that policy, as it takes it without one: of the
  // paths that a policy leaves, the best is taken.
  bool Meets(const Policy& policy) const;
  // What it carries of such submissions: one piece, or many.
  uint64_t MostBytes(bool many) const { return many ? max_list_bytes : max_bytes; }
};
using RouteRef = std::shared_ptr<const Route>;

// Two buffers, as the caller names them; an empty node is the session's own.
struct BufferPair {
  std::string_view source_node;
  std::string_view source;
  std::string_view destination_node;
  std::string_view destination;

  friend bool operator==(const BufferPair&, const BufferPair&) = default;
};

// One thread at a time.
class Routes {
 public:
  enum class Known {
    kFirst,   // not asked for before
    kSecond,  // worth a route
    kRoute,
    kNone  // the daemon has refused one lately, or the one that there is carries less
  };
  struct Found {
    Known known = Known::kFirst;
    RouteRef route;  // with kRoute
  };

  // Notes that the pair was asked for, to carry so many bytes (0: as many as the source has).
  Found Find(const BufferPair& pair, uint64_t bytes);
  void Set(const BufferPair& pair, RouteRef route);
  // The daemon has refused a route for so many (likewise).
  void SetNone(const BufferPair& pair, uint64_t bytes);
  // The route has been withdrawn: the pair is as after its first time.
  void Drop(const RouteRef& route);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMost = 4096;
  static constexpr std::chrono::seconds kAskAgain{1};
  // What carries no long ones will hardly do so soon.
  static constexpr std::chrono::minutes kAskAgainForLong{1};

  struct Key {
    std::string source_node;
    std::string source;
    std::string destination_node;
    std::string destination;

    operator BufferPair() const { return {source_node, source, destination_node, destination}; }
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(const BufferPair& pair) const {
      const std::hash<std::string_view> hash;
      const size_t nodes = hash(pair.source_node) * 31 + hash(pair.destination_node);
      return (nodes * 31 + hash(pair.source)) * 31 + hash(pair.destination);
    }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const BufferPair& a, const BufferPair& b) const { return a == b; }
  };
  struct Pair {
    RouteRef route;
    Clock::time_point none_until{};
    Clock::time_point no_long_until{};
  };

  Pair& At(const BufferPair& pair);

  std::unordered_map<Key, Pair, Hash, Equal> pairs_;
};

}  // namespace onecopy::client
