// How a node learns where other nodes are: one interface for etcd and DNS. What is discovered are
// addresses, never rights: [peers] says which nodes may be peers, and certificates prove who they
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/node.h"
#include "onecopy/status.h"

namespace onecopy::discovery {

// As many nodes as one daemon has peers; more entries are counted, and left out.
inline constexpr size_t kMaxEntries = 4096;

struct Entry {
  std::string name;     // of a node, as far as whoever wrote it says
  std::string address;  // HOST:PORT

  friend bool operator==(const Entry&, const Entry&) = default;
};

// All that is known at one time; it replaces what was known before.
struct Snapshot {
  std::vector<Entry> entries;           // this node's own may be among them
  uint64_t refused = 0;                 // what was no entry, or one too many
  std::vector<NameConflict> conflicts;  // names that several nodes want
  Status trouble = {};                  // what fails although there are entries
};

// What takes the answers. Called on the thread of a Discovery, one call at a time, and never waits.
class Sink {
 public:
  virtual ~Sink() = default;
  // A good answer.
  virtual void Found(Snapshot snapshot) = 0;
  // An attempt failed; what was found before still counts. The remedy is for people.
  virtual void Failed(const Status& why) = 0;
};

// Has a thread of its own, which begins when it is made; the engine never waits for it.
class Discovery {
 public:
  // Joins the thread, which may take as long as one question that is under way, a few seconds.
  virtual ~Discovery() = default;
  // This node is about to end: others may learn that at once rather than by its silence. Waits for
  // that for a second at most; nothing is found afterwards.
  virtual void Leave() = 0;
};

}  // namespace onecopy::discovery
