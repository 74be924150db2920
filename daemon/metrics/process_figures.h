// What the process knows of itself without its engine.
#pragma once

#include <cstdint>

namespace onecopy::metrics {

// Scrapes since the daemon began.
struct ScrapeCounts {
  uint64_t served = 0;
  uint64_t refused = 0;  // for what was asked, or for the certificate
  uint64_t broken = 0;   // too slow, cut off, or no HTTP
};

struct ProcessFigures {
  bool engine_answered = false;
  uint64_t log_records_dropped = 0;
  uint64_t audit_records_dropped = 0;
  ScrapeCounts scrapes;
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
  uint64_t open_files = 0;
  uint64_t max_files = 0;
};

// Reads /proc; what cannot be read is 0. The scrapes and the engine are the caller's to fill in.
ProcessFigures ReadProcess();

}  // namespace onecopy::metrics
