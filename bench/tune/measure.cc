#include "bench/tune/measure.h"

#include "bench/daemons/pair.h"
#include "bench/measure/statistics.h"
#include "bench/work/gpus.h"
#include "bench/work/transfer_mover.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {

Result<TuneEnds> FindTuneEnds(const DaemonOptions& daemon) {
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> east, Daemon::Start(daemon, "east"));
  const auto gpus = UsableGpus(east->AsNode());
  if (!gpus.ok()) return TuneEnds{"host", "host", "host memory"};
  const bool two = gpus->size() > 1;
  return TuneEnds{gpus->front().device, gpus->at(two ? 1 : 0).device,
                  two ? "memory of two GPUs" : "memory of one GPU"};
}

Result<double> MeasureChoice(const TuneOptions& options, const TuneEnds& ends,
                             const Choice& choice) {
  DaemonOptions daemon = options.daemon;
  daemon.slot_bytes = choice.slot_bytes;
  daemon.slots = choice.slots;
  daemon.sections += "[tcp]\nlanes = " + std::to_string(choice.lanes) +
                     "\nsocket_buffer = " + std::to_string(choice.socket_buffer_bytes) + "\n";
  ONECOPY_ASSIGN_OR_RETURN(const Pair pair, Pair::Start(daemon));
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Mover> mover,
                           MakeTransfer({.from = pair.east->AsNode(),
                                         .from_memory = ends.from,
                                         .to = pair.west->AsNode(),
                                         .to_memory = ends.to,
                                         .path = "tcp-staged"},
                                        options.bytes));
  std::vector<double> rates;
  for (unsigned sample = 0; sample <= options.samples; ++sample) {
    if (options.stopped && options.stopped()) {
      return Status(Code::kCancelled, reasons::kCancelled, "tuning was stopped");
    }
    ONECOPY_RETURN_IF_ERROR(mover->Fill(sample));
    ONECOPY_ASSIGN_OR_RETURN(const Moved moved, mover->Move());
    ONECOPY_ASSIGN_OR_RETURN(const bool right, mover->Verify(sample));
    if (!right) {
      return Status(Code::kDataLoss, reasons::kChecksumMismatch,
                    "bytes arrived changed, with " + choice.ToString());
    }
    if (sample > 0) rates.push_back(static_cast<double>(options.bytes) / moved.seconds);
  }
  return Summarise(std::move(rates)).median;
}

}  // namespace onecopy::bench
