// How long it takes from a client's request until the first byte moves.
#include <algorithm>

#include "bench/work/gpus.h"
#include "bench/work/transfer_mover.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kFirstBytes = 4096;  // so little that moving it takes no noticeable time
constexpr unsigned kMoreSamples = 8;

// What the client waited, without the move itself. The very first one, which also meets two daemons
// that have not moved anything yet, is the detail first_transfer_seconds.
Row Measure(Row row, const TransferParams& params, const Settings& settings) {
  const auto transfer = TransferMover::Create(params, kFirstBytes);
  if (!transfer.ok()) return NotSetUp(std::move(row), transfer.status());
  if (const Status plan = (*transfer)->Plan(); !plan.ok()) {
    return plan.code() == Code::kFailedPrecondition ? Waived(std::move(row), plan)
                                                    : Failed(std::move(row), plan);
  }
  row.verified = true;
  for (unsigned i = 0; i <= settings.samples * kMoreSamples; ++i) {
    if (settings.stopped && settings.stopped()) {
      return Failed(std::move(row), {Code::kCancelled, reasons::kCancelled, "the run was stopped"});
    }
    if (const Status filled = (*transfer)->Fill(i); !filled.ok()) return Failed(row, filled);
    const Result<Moved> moved = (*transfer)->Move();
    if (!moved.ok()) return Failed(std::move(row), moved.status());
    const Result<bool> right = (*transfer)->Verify(i);
    if (!right.ok()) return Failed(std::move(row), right.status());
    if (!*right) row.verified = false;
    const double waited = std::max(moved->details.at("client_seconds") - moved->seconds, 0.0);
    if (i == 0) {
      row.details["first_transfer_seconds"] = waited;
    } else {
      row.values.push_back(waited);
      row.details["negotiation_seconds"] = moved->details.at("negotiation_seconds");
    }
  }
  return Evaluated(std::move(row));
}

Row RowOf(std::string work, std::string path) {
  return {.work = std::move(work),
          .path = std::move(path),
          .bytes = kFirstBytes,
          .unit = Unit::kSeconds};
}

}  // namespace

std::vector<Row> FirstByte(const Settings& settings) {
  Row tcp = RowOf("first byte, between nodes", "tcp-*");
  Row local = RowOf("first byte, in a node", "local");
  Row peer = RowOf("first byte, in a node between gpus", "peer-direct");
  const Result<Environment> environment = Environment::Open(settings.given, settings.daemon);
  if (!environment.ok()) {
    return {NotSetUp(tcp, environment.status()), NotSetUp(local, environment.status()),
            NotSetUp(peer, environment.status())};
  }
  const TransferParams between = {environment->here, "host", environment->there, "host", tcp.path};
  const TransferParams within = {environment->here, "host", environment->here, "host", local.path};
  std::vector<Row> rows = {Measure(tcp, between, settings), Measure(local, within, settings)};
  const auto gpus = UsableGpus(environment->here);
  const Status why = gpus.ok() ? CheckPeers(*gpus) : gpus.status();
  if (!why.ok()) {
    rows.push_back(Waived(peer, why));
    return rows;
  }
  const TransferParams gpu = {environment->here, (*gpus)[0].device, environment->here,
                              (*gpus)[1].device, peer.path};
  rows.push_back(Measure(peer, gpu, settings));
  return rows;
}

}  // namespace onecopy::bench
