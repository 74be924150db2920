// Two network namespaces joined by a wire that loses packets when a test wants it to.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "transport/os/unique_fd.h"

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

  // Runs in a process that is about to become another program, or in a thread: what it starts
  // afterwards has that end's network, and a /sys that shows it. Ends the process where that fails.
  std::function<void()> Inside(End end) const;

  // Packets that this end sends are lost without a word to anybody, until Mend.
  void Cut(End from);
  void Mend(End from);

 private:
  const os::UniqueFd& Namespace(End end) const { return ends_[static_cast<size_t>(end)]; }
  std::string Do(End end, const std::string& command) const;  // what it says
  // Where the packets of this end are sent: to the other one, or to nobody.
  void SetNeighbour(End end, const std::string& hardware_address) const;

  std::array<os::UniqueFd, 2> ends_;
};

}  // namespace onecopy::testing
