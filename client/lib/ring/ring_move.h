// What a request asks of a route: one piece, or many of one length.
#pragma once

#include <cstdint>
#include <optional>

#include "client/lib/ring/routes.h"
#include "onecopy/range.h"
#include "onecopy/transfer.h"

namespace onecopy::client {

struct RingMove {
  ByteRange from;  // in the buffers, from the first byte of any piece to the last
  ByteRange to;
  uint64_t bytes = 0;   // of all pieces
  uint64_t pieces = 0;  // of many; 0: one
};

// Whether the ranges of a request, if it has any, can be a submission's: up to ring::kMostPieces of
// equal length, of at most ring::kMaxBytes, between two buffers.
bool AreRangesForRing(const TransferRequest& request);

// How many bytes a request moves, whose ranges are for the ring; 0 where it leaves that to the
// source.
uint64_t SaidBytes(const TransferRequest& request);

// Nothing where this route cannot carry the request, or a daemon would refuse it: where the length
// is not known, beyond what the route allows, or where bytes overlap. Its policy is not looked at.
std::optional<RingMove> MoveBy(const Route& route, const TransferRequest& request);

}  // namespace onecopy::client
