#include "daemon/ring/outcome.h"

#include <string>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/ring/layout.h"

namespace onecopy::ring {

const Status& StatusOf(Outcome outcome) {
  static const Status succeeded;
  static const Status torn(
      Code::kInvalidArgument, reasons::kBadArgument,
      "a submission of the ring is in the wrong place",
      "submit from one thread at a time, and only into places that the daemon has freed");
  static const Status no_route(Code::kInvalidArgument, reasons::kBadArgument,
                               "a submission names a route that the ring does not have");
  static const Status out_of_range(Code::kOutOfRange, reasons::kRangeOutOfBuffer,
                                   "a range of a submission lies outside its route's range");
  static const Status overlap(Code::kInvalidArgument, reasons::kRangesOverlap,
                              "source and destination of a submission overlap in one buffer",
                              "choose ranges that share no byte");
  static const Status too_long(Code::kInvalidArgument, reasons::kBadSize,
                               "a submission has no bytes, or more than its route can carry (" +
                                   FormatBytes(kMaxBytes) +
                                   ", or the limit that the daemon announced)");
  static const Status draining(Code::kUnavailable, reasons::kDraining,
                               "the node drains and takes no new transfers");
  static const Status no_sums(Code::kInvalidArgument, reasons::kNotApplicable,
                              "a submission asks for a checksum, and its route computes none");
  static const Status differs(
      Code::kDataLoss, reasons::kChecksumMismatch, "the checksums of the two ends differ",
      "check whether either end was changed meanwhile; if not, suspect memory or network");
  static const Status unknown(Code::kInternal, reasons::kInternal, "the transfer failed");
  switch (outcome) {
    case Outcome::kSucceeded:
      return succeeded;
    case Outcome::kTorn:
      return torn;
    case Outcome::kNoRoute:
      return no_route;
    case Outcome::kOutOfRange:
      return out_of_range;
    case Outcome::kOverlap:
      return overlap;
    case Outcome::kTooLong:
      return too_long;
    case Outcome::kDraining:
      return draining;
    case Outcome::kNoSums:
      return no_sums;
    case Outcome::kDiffers:
      return differs;
    case Outcome::kRevoked:
    case Outcome::kFailed:
      break;
  }
  return unknown;
}

}  // namespace onecopy::ring
