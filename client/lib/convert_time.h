// Times of the wire.
#pragma once

#include <google/protobuf/timestamp.pb.h>

#include <chrono>

#include "onecopy/transfer.h"

namespace onecopy::client {

inline WallTime FromWire(const google::protobuf::Timestamp& wire) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::seconds(wire.seconds()) + std::chrono::nanoseconds(wire.nanos())));
}

}  // namespace onecopy::client
