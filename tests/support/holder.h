// The process that holds a node's memory while its daemon is restarted.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>

namespace onecopy::testing {

// Of the daemon with this run directory and [restart] holder = "own"; 0 where there is none.
pid_t HolderOf(const std::string& run_dir);

// Whether that process has ended. Its number may still be there: a holder's parent has gone, and in
// a container the first process need not collect it.
bool HasEnded(pid_t pid);

// How many memory files a process has open.
size_t MemoryFilesOf(pid_t pid);

// A holder goes on without its daemon: this ends it. To be made before the node.
class HolderEnds {
 public:
  explicit HolderEnds(std::string run_dir) : run_dir_(std::move(run_dir)) {}
  ~HolderEnds();
  HolderEnds(const HolderEnds&) = delete;
  HolderEnds& operator=(const HolderEnds&) = delete;

 private:
  const std::string run_dir_;
};

}  // namespace onecopy::testing
