// What arrives in a buffer, as its owner hears of it, and messages.
#pragma once

#include "onecopy/language.h"  // first

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/ids.h"
#include "onecopy/range.h"
#include "onecopy/transfer.h"

namespace onecopy {

// The most that a message may have.
inline constexpr size_t kMaxArrivalMessageBytes = 4096;

// A transfer that has written into a buffer, or a message alone. Its watcher finds the
// bytes there.
struct Arrival {
  std::string buffer;     // name
  std::string buffer_id;  // as BufferInfo::id
  // Counts what arrives in the buffer: one more than that of the arrival before. So two of one
  // buffer with others between them, that were not told, are seen to be so.
  uint64_t sequence = 0;
  TransferId transfer;  // of a part of a series, the series'; empty: a message alone
  std::string from;     // the user that requested it, as uid@node
  // From the first byte that was written to the last; nothing for a message alone.
  ByteRange range;
  uint64_t bytes = 0;   // payload: less than the range's where there are gaps between ranges
  std::string message;  // any bytes; empty: none
  WallTime time;        // by the clock of the buffer's node

  friend bool operator==(const Arrival&, const Arrival&) = default;
};

// What a watch has to tell.
struct ArrivalBatch {
  std::vector<Arrival> arrivals;  // in the order in which they came
  // Arrivals without a message that were not told since the batch before, as room ran out: the
  // watch did not deal with what it was told before. Those with a message are never left out.
  uint64_t missed = 0;
};

// A message alone.
struct MessageRequest {
  Endpoint destination = {};  // a buffer, without a range
  std::string message = {};   // 1 to kMaxArrivalMessageBytes bytes
  // As in TransferRequest, except for the buffer's node: a repetition is not told again. Empty: not
  // remembered.
  std::string request_id = {};
};

}  // namespace onecopy
