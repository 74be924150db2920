// How a transfer of a ring ends.
#pragma once

#include <cstdint>

#include "onecopy/status.h"

namespace onecopy::ring {

enum class Outcome : uint32_t {
  kSucceeded,
  kTorn,        // the entry is not the one that its place is for
  kNoRoute,     // it names no route of its ring
  kOutOfRange,  // of what the route allows
  kOverlap,
  kTooLong,
  kDraining,
  kRevoked,  // the route says why
  kFailed,   // the hardware did, or what drives it; the route says why
  kNoSums,   // it asks for a checksum, and its route computes none
  kDiffers,  // the bytes have arrived, and the checksums differ
};

// Code, reason and text, except for kRevoked and kFailed.
const Status& StatusOf(Outcome outcome);

}  // namespace onecopy::ring
