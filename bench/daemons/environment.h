// The two nodes between which works move bytes.
#pragma once

#include <optional>
#include <string>

#include "bench/daemons/node.h"
#include "bench/daemons/pair.h"

namespace onecopy::bench {

// Daemons that run already: one here, of which the other is a peer.
struct GivenDaemons {
  std::string run_dir = {};  // empty: the default one
  std::string peer = {};     // empty: the bench starts two of its own
};

struct Environment {
  Node here;
  Node there;
  std::optional<Pair> own;

  // Two new daemons, or those that were given. NOT_FOUND if the peer is unknown, UNAVAILABLE
  // with its reason if it is not connected or speaks another version.
  static Result<Environment> Open(const GivenDaemons& given, const DaemonOptions& options);
};

}  // namespace onecopy::bench
