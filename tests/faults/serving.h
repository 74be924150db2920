// What must still hold after a fault: the daemons serve, and nothing is lost.
#pragma once

#include <sys/types.h>

#include <string>

#include "tests/cluster/pair.h"

namespace onecopy::testing {

// Configuration of lanes so slow that 1 GiB takes many seconds: for transfers that must still run
// when something happens to them.
inline constexpr char kSlowLanes[] =
    "[tcp]\nlanes = 1\nchunk_bytes = \"4KiB\"\ngets_per_lane = 1\n";

// Requires, by Catch's REQUIRE, that the node attaches a client, makes buffers, moves bytes
// rightly, and lets go of all that.
void CheckServes(const Node& node);
// Likewise, from one node to the other.
void CheckMoves(const Node& from, const Node& to);

// A buffer whose bytes no fault may change. Made by the constructor, as "kept" of `bytes` bytes.
class Kept {
 public:
  explicit Kept(const Node& node, uint64_t bytes = 4096);

  void CheckUnchanged() const;

 private:
  const Node& node_;
  std::string sum_;
};

// Two nodes with a kept buffer each.
struct Survivors {
  explicit Survivors(const std::string& config = {});

  // Both serve, reach each other, and have what they had.
  void Check() const;

  Pair pair;
  Node& east;
  Node& west;
  const Kept in_east;
  const Kept in_west;
};

// As CheckRefused, and the message has the text `names`: what was wrong.
void CheckRefusedNaming(const CommandResult& result, int exit_status, const std::string& code,
                        const std::string& reason, const std::string& names);
// error.remedy of the JSON document, "" where there is none.
std::string RemedyOf(const CommandResult& result);

// A failure of that code and reason, of a call of the client library.
void CheckFailed(const Status& status, Code code, const std::string& reason);

// Of a running process, as the kernel counts them.
uint64_t ResidentBytes(pid_t pid);
size_t OpenDescriptors(pid_t pid);

}  // namespace onecopy::testing
