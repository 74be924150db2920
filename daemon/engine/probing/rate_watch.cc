#include "daemon/engine/probing/rate_watch.h"

#include <optional>

#include "daemon/log/log.h"
#include "daemon/plan/planner.h"
#include "onecopy/size.h"

namespace onecopy::engine {
namespace {

constexpr double kFarSlower = 0.5;

}  // namespace

void RateWatch::Note(const Made& made, TransferInfo& info) {
  Receipt& receipt = info.receipt;
  if (made.bytes < plan::kMinMeasuredBytes || receipt.seconds <= 0) return;
  const double rate = static_cast<double>(made.bytes) / receipt.seconds;
  const std::optional<PathRates::Usual> usual = rates_.UsualOf(made.node, made.way, made.bytes);
  rates_.Note(made.node, made.way, made.bytes, receipt.seconds);

  std::string expected;
  if (rate < kFarSlower * made.probed_bytes_per_second) {
    expected = "probed: " + FormatRate(rate) + ", where the probe of this path measured " +
               FormatRate(made.probed_bytes_per_second);
  } else if (usual && rate < kFarSlower * usual->bytes_per_second) {
    expected = "measured before: " + FormatRate(rate) +
               ", where earlier transfers by this path made " +
               FormatRate(usual->bytes_per_second) + " at " + plan::TextOf(usual->time);
  }
  if (expected.empty()) return;
  receipt.evidence["alarm"] = "far slower than " + expected;
  probes_.CountSlow(made.node);
  log::Warning("transfer far slower than measured before", {{"transfer", info.id.str()},
                                                            {"from", info.source.ToString()},
                                                            {"path", made.way.path},
                                                            {"link", made.way.link},
                                                            {"rate", expected},
                                                            {"trace", info.trace}});
}

}  // namespace onecopy::engine
