// Two network namespaces joined by a wire that loses packets when a test wants it to.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/support/network.h"

namespace onecopy::testing {

// Everything of it goes with the object, or with the process. One thread at a time; several wires
// do not disturb each other.
class Wire {
 public:
  enum class End { kWest = 0, kEast = 1 };

  // Why there can be none here (rights, a program that is missing), or "".
  static std::string WhyNot();

  // Carries so much each way; 0: as fast as it goes. Throws where the kernel refuses.
  explicit Wire(uint64_t megabits_per_second = 0);

  static const char* Address(End end);

  // As NetworkNamespace::Inside, of that end.
  std::function<void()> Inside(End end) const { return Namespace(end).Inside(); }

  // Packets that this end sends are lost without a word to anybody, until Mend.
  void Cut(End from);
  void Mend(End from);

 private:
  const NetworkNamespace& Namespace(End end) const { return ends_[static_cast<size_t>(end)]; }
  // Where the packets of this end are sent: to the other one, or to nobody.
  void SetNeighbour(End end, const std::string& hardware_address) const;

  std::array<NetworkNamespace, 2> ends_;
};

}  // namespace onecopy::testing
