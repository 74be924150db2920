#include "daemon/engine/rings/long_rates.h"

namespace onecopy::engine {

void LongRates::Note(const Way& way, os::Clock::time_point begun, bool alone, TransferInfo& info) {
  if (!alone || transfers_.MovedSince(begun)) return;
  watch_.Note({way.from_node,
               {way.path,
                way.link,
                {way.from.kind, way.from.device},
                {way.to.kind, way.to.device},
                false,
                false},
               info.bytes,
               way.probed_bytes_per_second},
              info);
}

}  // namespace onecopy::engine
