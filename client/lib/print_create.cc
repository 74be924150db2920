#include "client/lib/print_create.h"

#include <string>
#include <vector>

#include "client/lib/fold_ranges.h"
#include "client/lib/wire.h"
#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

// Here rather than by the daemon, to which so much is not sent.
Status CheckCounts(const TransferRequest& request) {
  const auto too_many = [](const std::string& what, size_t count, size_t most) {
    return Status(
        Code::kInvalidArgument, reasons::kBadArgument,
        std::to_string(count) + " " + what + "; a transfer takes up to " + std::to_string(most),
        "split the request");
  };
  if (request.ranges.size() > kMaxRanges) {
    return too_many("ranges", request.ranges.size(), kMaxRanges);
  }
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

}  // namespace

Result<v1::CreateTransferRequest> PrintCreate(const TransferRequest& request) {
  ONECOPY_RETURN_IF_ERROR(CheckTexts(request));
  ONECOPY_RETURN_IF_ERROR(CheckCounts(request));
  v1::CreateTransferRequest wire;
  codec::PrintWithoutRanges(request, &wire);
  PrintRanges(request.ranges, &wire);
  wire.set_request_id(ChosenOr(request.request_id));
  return wire;
}

}  // namespace onecopy::client
