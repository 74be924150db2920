// Machines at one switch: network namespaces, each with a wire of its own to a bridge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/network.h"

namespace onecopy::testing {

// Everything of it goes with the object, or with the process. One thread at a time.
class Star {
 public:
  // Why there can be none here (rights, a program that is missing), or "".
  static std::string WhyNot();

  // Each wire carries so much each way. Throws where the kernel refuses.
  Star(size_t machines, uint64_t megabits_per_second);

  static std::string Address(size_t machine);
  // As NetworkNamespace::Inside, of that machine.
  std::function<void()> Inside(size_t machine) const { return machines_[machine].Inside(); }

  // Whatever that machine sends or is sent is lost silently, until Mend.
  void Cut(size_t machine) const;
  void Mend(size_t machine) const;

  // What its wire has carried from it so far.
  uint64_t BytesSent(size_t machine) const;

 private:
  NetworkNamespace switch_;
  std::vector<NetworkNamespace> machines_;
};

}  // namespace onecopy::testing
