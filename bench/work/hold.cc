#include "bench/work/hold.h"

namespace onecopy::bench {

Compared HoldTransfer(Row row, const TransferParams& params, const MakeCeiling& make_ceiling,
                      const Settings& settings, const HoldOptions& options) {
  const Status room = CheckHostMemory(row.bytes, options.payloads_in_memory);
  if (!room.ok()) return {.row = NotSetUp(std::move(row), room)};
  const auto work = TransferMover::Create(params, row.bytes);
  if (!work.ok()) return {.row = NotSetUp(std::move(row), work.status())};
  if (const Status plan = (*work)->Plan(); !plan.ok()) {
    const bool waived = plan.code() == Code::kFailedPrecondition && !options.must_be_there;
    return {.row = waived ? Waived(std::move(row), plan) : Failed(std::move(row), plan)};
  }
  const CompareOptions compare = settings.CompareAt(row.bytes);
  return CompareWithCpu(std::move(row), **work, make_ceiling, compare);
}

}  // namespace onecopy::bench
