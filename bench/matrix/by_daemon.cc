#include "bench/matrix/by_daemon.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "bench/measure/statistics.h"
#include "bench/work/transfer_mover.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

// Two buffers, and transfers from one to the other.
class Ends {
 public:
  static Result<Ends> Create(const Node& node, const std::string& from, const std::string& to,
                             uint64_t bytes) {
    ONECOPY_ASSIGN_OR_RETURN(End source, End::Create(node, from, bytes));
    ONECOPY_ASSIGN_OR_RETURN(End target, End::Create(node, to, bytes));
    return Ends(std::move(source), std::move(target));
  }

  Status Fill() { return source_.Put(kSeed); }
  Status Verify() {
    ONECOPY_ASSIGN_OR_RETURN(const bool right, target_.Holds(kSeed));
    if (right) return OkStatus();
    return {Code::kDataLoss, reasons::kChecksumMismatch, "the bytes of a transfer arrived changed"};
  }

  // The first `bytes` bytes: seconds by this process's clock.
  Result<double> Seconds(uint64_t bytes) {
    using Clock = std::chrono::steady_clock;
    TransferRequest request{.source = source_.endpoint(), .destination = target_.endpoint()};
    request.source.offset_bytes = request.destination.offset_bytes = 0;
    request.source.bytes = request.destination.bytes = bytes;
    const Clock::time_point begin = Clock::now();
    ONECOPY_ASSIGN_OR_RETURN(const TransferInfo done, source_.client().RunTransfer(request));
    const Clock::time_point end = Clock::now();
    ONECOPY_RETURN_IF_ERROR(OutcomeOf(done));
    path_ = done.receipt.path;
    return std::chrono::duration<double>(end - begin).count();
  }

  const std::string& path() const { return path_; }  // of the last transfer

 private:
  static constexpr uint64_t kSeed = 1;

  Ends(End source, End target) : source_(std::move(source)), target_(std::move(target)) {}

  End source_;
  End target_;
  std::string path_;
};

class DaemonRun {
 public:
  DaemonRun(const ByDaemonOptions& options, const Matrix& matrix)
      : options_(options), matrix_(matrix) {}

  void Measure(const Node& node, PairFigures* pair) const {
    const Status outcome = MeasureAll(node, pair);
    if (outcome.ok()) return;
    pair->onecopy_bytes_per_second = outcome;
    pair->onecopy_latency_seconds = outcome;
  }

 private:
  Status MeasureAll(const Node& node, PairFigures* pair) const {
    if (Stopped()) return NotMeasured().status();
    ONECOPY_ASSIGN_OR_RETURN(
        Ends ends, Ends::Create(node, matrix_.gpus[pair->from].uuid, matrix_.gpus[pair->to].uuid,
                                std::max(matrix_.bytes, kLatencyTransferBytes)));
    ONECOPY_RETURN_IF_ERROR(ends.Fill());
    ONECOPY_ASSIGN_OR_RETURN(const double seconds, Median(ends, matrix_.bytes, matrix_.samples, 1));
    const std::string path = ends.path();
    ONECOPY_ASSIGN_OR_RETURN(const double latency,
                             Median(ends, kLatencyTransferBytes,
                                    matrix_.samples * kLatencyTransfers, kLatencyTransfers));
    ONECOPY_RETURN_IF_ERROR(ends.Verify());
    pair->onecopy_bytes_per_second = static_cast<double>(matrix_.bytes) / seconds;
    pair->onecopy_latency_seconds = latency;
    pair->onecopy_path = path;
    return OkStatus();
  }

  // Of `count` transfers, after as many others as are said.
  Result<double> Median(Ends& ends, uint64_t bytes, unsigned count, unsigned warm_up) const {
    std::vector<double> seconds;
    for (unsigned i = 0; i < warm_up + count; ++i) {
      if (Stopped()) return NotMeasured();
      ONECOPY_ASSIGN_OR_RETURN(const double took, ends.Seconds(bytes));
      if (i >= warm_up) seconds.push_back(took);
    }
    return Summarise(std::move(seconds)).median;
  }

  bool Stopped() const { return options_.stopped && options_.stopped(); }

  const ByDaemonOptions& options_;
  const Matrix& matrix_;
};

}  // namespace

Status MeasureByDaemon(const ByDaemonOptions& options, Matrix* matrix) {
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon,
                           Daemon::Start(options.daemon, "matrix"));
  const DaemonRun run(options, *matrix);
  for (PairFigures& pair : matrix->pairs) {
    if (options.stopped && options.stopped()) break;
    if (options.began) {
      options.began("onecopy: " + std::to_string(pair.from) + " -> " + std::to_string(pair.to));
    }
    run.Measure(daemon->AsNode(), &pair);
  }
  return OkStatus();
}

}  // namespace onecopy::bench
