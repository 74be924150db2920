// A node whose memory works use, and how it is reached.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "onecopy/client.h"

namespace onecopy::bench {

struct Node {
  std::string name = {};
  std::string run_dir = {};       // of the daemon that is asked; empty: the default one
  std::optional<pid_t> pid = {};  // of its daemon, where that is the bench's own
  bool elsewhere = false;         // a peer of that daemon, with buffers that were lent there

  Result<Client> Connect() const {
    return Client::Connect({.run_dir = run_dir, .program = "onecopy-bench"});
  }
};

// Buffers that `onecopy-bench lend` makes for others begin with this name.
inline constexpr char kLentPrefix[] = "onecopy-bench-";

}  // namespace onecopy::bench
