// Which pairs of buffers the session's ring carries transfers between.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "onecopy/transfer.h"
#include "transport/core/range.h"

namespace onecopy::client {

// One pair, as the daemon answered.
struct SmallRoute {
  uint64_t word = 0;
  std::string node;
  std::string source;  // the buffers' names
  std::string destination;
  ByteRange from;  // what submissions may read, and write
  ByteRange to;
  std::string path;
  std::vector<Step> steps;
};
using SmallRouteRef = std::shared_ptr<const SmallRoute>;

// One thread at a time.
class SmallRoutes {
 public:
  enum class Known {
    kFirst,   // not asked for before
    kSecond,  // worth a route
    kRoute,
    kNone  // the daemon has refused one lately
  };
  struct Found {
    Known known = Known::kFirst;
    SmallRouteRef route;  // with kRoute
  };

  // By the buffers as the caller names them. Notes that the pair was asked for.
  Found Find(std::string_view source, std::string_view destination);
  void Set(std::string_view source, std::string_view destination, SmallRouteRef route);
  void SetNone(std::string_view source, std::string_view destination);
  // The route has been withdrawn: the pair is as after its first time.
  void Drop(const SmallRouteRef& route);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMost = 4096;
  static constexpr std::chrono::seconds kAskAgain{1};

  struct Key {
    std::string source;
    std::string destination;
  };
  struct View {
    std::string_view source;
    std::string_view destination;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(const View& key) const {
      const std::hash<std::string_view> hash;
      return hash(key.source) * 31 + hash(key.destination);
    }
    size_t operator()(const Key& key) const { return (*this)(View{key.source, key.destination}); }
  };
  struct Equal {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return a.source == b.source && a.destination == b.destination;
    }
  };
  struct Pair {
    SmallRouteRef route;
    Clock::time_point none_until{};
  };

  Pair& At(std::string_view source, std::string_view destination);

  std::unordered_map<Key, Pair, Hash, Equal> pairs_;
};

}  // namespace onecopy::client
