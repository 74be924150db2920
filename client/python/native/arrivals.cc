#include "client/python/native/arrivals.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>

#include "client/cli/output/document.h"
#include "client/python/native/errors.h"
#include "client/python/native/gil.h"
#include "client/python/native/waiting.h"

namespace onecopy::python {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

Watch::Batch ToBatch(const ArrivalBatch& batch) {
  return {cli::ListToJson(batch.arrivals).dump(-1, ' ', false, cli::Json::error_handler_t::replace),
          batch.missed};
}

}  // namespace

Watch::~Watch() {
  const WithoutGil released;
  watch_.reset();
}

Watch::Batch Watch::Poll(uint64_t most) { return ToBatch(Must(watch_->Poll(most))); }

Watch::Batch Watch::Wait(uint64_t most, std::optional<int64_t> limit_ms,
                         const std::stop_source& stop) {
  const bool signals = IsMainThread();
  std::optional<Clock::time_point> until;
  if (limit_ms) until = Clock::now() + Milliseconds(*limit_ms);
  for (;;) {
    std::optional<Milliseconds> limit;
    bool last = false;
    if (until) {
      limit = std::max(Milliseconds(0), std::chrono::ceil<Milliseconds>(*until - Clock::now()));
      last = !signals || *limit <= kSignalsEvery;
    }
    if (signals && !last) limit = kSignalsEvery;
    auto batch = [&] {
      const WithoutGil released;
      return watch_->Wait(stop.get_token(), limit, most);
    }();
    const bool again = !batch.ok() && batch.status().code() == Code::kDeadlineExceeded && !last;
    if (!again) return ToBatch(Must(std::move(batch)));
    if (PyErr_CheckSignals() != 0) nanobind::raise_python_error();
  }
}

void Watch::Close() {
  const WithoutGil released;
  Check(watch_->Close());
}

}  // namespace onecopy::python
