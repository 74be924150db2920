// What the status page is made of.
#pragma once

#include <cstdint>

#include "daemon/engine/api/figures.h"
#include "onecopy/transfer.h"

namespace onecopy::status {

struct Seen {
  const engine::Figures* figures = nullptr;  // with `status`; null: the engine did not answer
  uint64_t log_records_dropped = 0;
  uint64_t audit_records_dropped = 0;
  WallTime now;
};

}  // namespace onecopy::status
