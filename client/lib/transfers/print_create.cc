#include "client/lib/transfers/print_create.h"

#include <string>
#include <vector>

#include "client/lib/calls/wire.h"
#include "client/lib/transfers/fold_ranges.h"
#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

Status CheckForms(const TransferRequest& request) {
  if (!request.ranges.empty()) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "a request has both `ranges` and `equal_ranges`", "set one of the two"};
  }
  if (request.equal_ranges->sources.empty()) {
    return {Code::kInvalidArgument, reasons::kBadSize, "`equal_ranges` has no range",
            "leave it null to move all of the source"};
  }
  return CheckColumns(*request.equal_ranges);
}

// Here rather than by the daemon, to which so much is not sent.
Status CheckCounts(const TransferRequest& request) {
  const auto too_many = [](const std::string& what, size_t count, size_t most) {
    return Status(
        Code::kInvalidArgument, reasons::kBadArgument,
        std::to_string(count) + " " + what + "; a transfer takes up to " + std::to_string(most),
        "split the request");
  };
  size_t ranges = request.ranges.size();
  if (request.equal_ranges != nullptr) {
    ONECOPY_RETURN_IF_ERROR(CheckForms(request));
    ranges = request.equal_ranges->sources.size();
  }
  if (ranges > kMaxRanges) return too_many("ranges", ranges, kMaxRanges);
  for (const auto* more : {&request.more_sources, &request.more_destinations}) {
    if (more->size() >= kMaxBuffers) return too_many("buffers", more->size() + 1, kMaxBuffers);
  }
  return OkStatus();
}

void PrintRanges(const std::vector<RangePair>& ranges, v1::CreateTransferRequest* out) {
  if (ranges.empty()) return;
  const std::vector<RangePair> folded = FoldRanges(ranges);
  codec::PrintPairs(folded.empty() ? ranges : folded, out->mutable_source_ranges(),
                    out->mutable_destination_ranges());
  if (!folded.empty()) out->set_asked_ranges(ranges.size());
}

void PrintRanges(const EqualRanges& ranges, v1::CreateTransferRequest* out) {
  if (const std::vector<RangePair> folded = FoldRanges(ranges); !folded.empty()) {
    codec::PrintPairs(folded, out->mutable_source_ranges(), out->mutable_destination_ranges());
    out->set_asked_ranges(ranges.sources.size());
    return;
  }
  codec::PrintPairs(ranges, out->mutable_source_ranges(), out->mutable_destination_ranges());
}

}  // namespace

Result<v1::CreateTransferRequest> PrintCreate(const TransferRequest& request) {
  ONECOPY_RETURN_IF_ERROR(CheckTexts(request));
  ONECOPY_RETURN_IF_ERROR(CheckCounts(request));
  v1::CreateTransferRequest wire;
  codec::PrintWithoutRanges(request, &wire);
  if (request.equal_ranges != nullptr) {
    PrintRanges(*request.equal_ranges, &wire);
  } else {
    PrintRanges(request.ranges, &wire);
  }
  wire.set_request_id(ChosenOr(request.request_id));
  return wire;
}

}  // namespace onecopy::client
