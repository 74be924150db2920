// Two network namespaces joined by wires that lose packets when a test wants them to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
  // Joins the namespaces that `other`, the last one between them, joins: another subnet, with a
  // rate and cuts of its own.
  Wire(const Wire& other, uint64_t megabits_per_second);

  std::string Address(End end) const;

  // As NetworkNamespace::Inside, of that end.
  std::function<void()> Inside(End end) const { return Namespace(end).Inside(); }

  // Packets that this end sends are lost without a word to anybody, until Mend.
  void Cut(End from);
  void Mend(End from);
  // The same, of both ends.
  void Cut();
  void Mend();

  // What that end has sent into it so far, lost packets and headers included.
  uint64_t BytesSent(End from) const { return Namespace(from).BytesSent(device_); }

 private:
  using Ends = std::array<NetworkNamespace, 2>;

  Wire(std::shared_ptr<const Ends> ends, int number, uint64_t megabits_per_second);

  const NetworkNamespace& Namespace(End end) const { return (*ends_)[static_cast<size_t>(end)]; }
  // Where the packets of this end are sent: to the other one, or to nobody.
  void SetNeighbour(End end, const std::string& hardware_address) const;

  std::shared_ptr<const Ends> ends_;
  int number_;  // of the wires between these ends
  std::string device_;
};

}  // namespace onecopy::testing
