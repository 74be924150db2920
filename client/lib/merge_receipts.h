// One receipt out of those of several transfers that moved pieces of one payload.
#pragma once

#include "onecopy/transfer.h"

namespace onecopy::client {

// Adds what `part` says to `whole`, which begins empty. Equal steps, lanes and attempts become one
// with the bytes of both (two equal steps of one part stay two), counters of the evidence add up,
// and a refusal of one path for one reason is kept once, in its newest words. Different paths are
// named one after the other: "tcp-direct,tcp-bounce". `seconds`, `bytes_per_second` and `checksum`
// are left for the caller, who knows how the parts overlapped.
void MergeReceipt(const Receipt& part, Receipt& whole);

}  // namespace onecopy::client
