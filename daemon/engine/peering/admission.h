// Which nodes may be peers of this one, and in which domains of uids they are: by what the
// configuration and the kernel say, never by what a node says of itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/base/options.h"

namespace onecopy::engine {

// Engine thread.
class Admission {
 public:
  // `peers`: those of the configuration, whose names may be patterns. Discovered ones count for
  // nothing here.
  explicit Admission(const Options& options);
  // Another configuration: who is not let in by it any more is nobody that was met.
  void Configure(std::vector<PeerOptions> peers);
  // The node has gone: it counts as never met, unless it was met on this machine.
  void Forget(const std::string& node);

  // Whether calls of the node of that name are taken. Its name was proven as far as that can be: by
  // its certificate, or else not at all. `local`: its connection comes over loopback from a process
  // that the kernel says is the daemon's own user's or root's; such a node may be a peer without
  // being configured. PERMISSION_DENIED (ACCESS_DENIED) otherwise.
  Status Admit(const std::string& node, bool local);

  // Whether calls of that node may still be taken, as far as the configuration, or that it was met
  // on this machine, says.
  bool Expects(const std::string& node) const;
  // Whether the configuration has a section of that very name.
  bool Names(const std::string& node) const { return ByName(node) != nullptr; }

  // This node's own domain; empty: none.
  std::string OwnDomain() const;
  // Of a peer: what the configuration says, by its name before a pattern; where it says nothing,
  // this node's own for one that is known to be on this machine and `says` the same; else none.
  std::string DomainOf(const std::string& node, const std::string& says) const;
  // PeerOptions::create_bytes of a peer: by its name before a pattern.
  std::optional<uint64_t> CreateBytes(const std::string& node) const;

 private:
  // What the configuration says of a node by its name; null: nothing.
  const PeerOptions* ByName(const std::string& node) const;
  // Of the patterns that fit, the longest one.
  const PeerOptions* ByPattern(const std::string& node) const;
  bool IsLocal(const std::string& node) const;

  const std::string node_;
  const std::string own_domain_;
  const bool loopback_only_;
  const bool names_proven_;
  std::vector<PeerOptions> peers_;
  // A node that is not configured by name.
  struct Met {
    bool local;     // met on this machine: it stays so, lest another takes its name and its rights
    uint64_t call;  // the number of its last call
  };

  // There are so many nodes of this machine, and so many others: the one of its kind goes that has
  // not called for longest, so that nodes which come and go keep no others out.
  void Meet(const std::string& node, bool local);

  std::map<std::string, Met> met_;
  uint64_t calls_ = 0;
};

}  // namespace onecopy::engine
