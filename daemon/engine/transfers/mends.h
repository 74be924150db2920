// The parts of one transfer that arrived unlike the source, as the checksums say: they are sent
// once more.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "onecopy/range.h"

namespace onecopy::engine {

// Engine thread.
class Mends {
 public:
  // Notes which parts of the payload are wrong, in their order. False: they are not to be sent
  // again, because none are known, or because they were wrong too often.
  bool Add(const std::vector<ByteRange>& wrong);
  // The part to send now. Null: none, and so what is sent is the payload.
  const ByteRange* next() const { return parts_.empty() ? nullptr : &parts_.front(); }
  // Whether nothing is to be sent behind that: then the checksums are compared again.
  bool last() const { return parts_.size() <= 1; }
  // next() has arrived.
  void Sent() { parts_.pop_front(); }
  // How much of the payload is still to be sent.
  uint64_t bytes() const;
  // The payload is sent as a whole instead.
  void SendAll() { parts_.clear(); }

 private:
  std::deque<ByteRange> parts_;
  int rounds_ = 0;
};

}  // namespace onecopy::engine
