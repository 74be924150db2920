// Users who move much, as processes of their own: see neighbour.cc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "tests/support/node.h"

namespace onecopy::testing {

// Keeps so many transfers of `bytes` bytes under way, once it has begun. Throws where one of them
// fails. One thread.
class Neighbour {
 public:
  enum class By { kAny, kCall };  // kAny: by its ring, where that serves
  Neighbour(uid_t uid, const Node& node, const std::string& from, const std::string& to,
            uint64_t bytes, int under_way, By by = By::kAny);

  // Returns when each of those under way has ended once.
  void Begin();
  // How many bytes the transfers moved that have ended.
  uint64_t Count();
  // How long each of the next so many took, in microseconds: the median and the 99th of a hundred.
  std::pair<double, double> Times(int count);

 private:
  std::string Ask(const std::string& line);
  Process process_;
};

// A buffer of that user with memory for all of its bytes.
void CreateWritten(uid_t uid, const Node& node, const std::string& name, uint64_t bytes,
                   const std::string& memory = "host");
// For two users to move without a pause: "from1" and "to1" are kOwner's, "from2" and "to2"
// kOther's.
void CreateForTwo(const Node& node, uint64_t bytes);

}  // namespace onecopy::testing
