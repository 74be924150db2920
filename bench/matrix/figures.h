// What was measured between each two GPUs of a machine, by plain CUDA and by a daemon. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::bench {

// A figure, or why there is none: see WhyMissing.
using Figure = Result<double>;
Figure NotMeasured();

enum class Missing {
  kNoP2p,    // the GPUs do not reach each other's memory; the status says which
  kStopped,  // the run was stopped before
  kFailed,   // measuring it failed
};
// Of a figure that is not ok.
Missing WhyMissing(const Figure& figure);

struct PlainFigures {
  Figure one_way_bytes_per_second = NotMeasured();
  Figure both_ways_bytes_per_second = NotMeasured();  // the sum of both directions
  Figure latency_seconds = NotMeasured();             // of a copy of kLatencyCopyBytes
};

struct PairFigures {
  size_t from = 0;  // in Matrix::gpus
  size_t to = 0;
  PlainFigures p2p_on;
  PlainFigures p2p_off;
  Figure through_host_bytes_per_second = NotMeasured();
  Figure onecopy_bytes_per_second = NotMeasured();
  Figure onecopy_latency_seconds = NotMeasured();  // of a transfer of kLatencyTransferBytes
  std::string onecopy_path;                        // as the receipt has it; empty: no transfer
};

inline constexpr uint64_t kLatencyCopyBytes = 16;
inline constexpr uint64_t kLatencyTransferBytes = 4096;
inline constexpr unsigned kCopiesPerSample = 5;  // of all bytes, one after the other
inline constexpr unsigned kLatencyCopies = 100;  // likewise, of kLatencyCopyBytes
// Of kLatencyTransferBytes, each timed by itself, for each sample.
inline constexpr unsigned kLatencyTransfers = 100;

struct MatrixGpu {
  std::string name;
  std::string uuid;
  uint64_t memory_bytes = 0;
};

struct Matrix {
  uint64_t bytes = 0;  // of each copy and transfer; latencies are of fewer bytes
  unsigned samples = 0;
  int cuda_version = 0;                 // of the driver, as cuda.h writes it
  std::string driver_version = {};      // "580.65.06"; empty: not known
  std::vector<MatrixGpu> gpus = {};     // in the order in which the driver numbers them
  std::vector<PairFigures> pairs = {};  // row by row: from 0 to each, from 1 to each, …
};

// No figure measured yet.
std::vector<PairFigures> EveryPair(size_t gpus);

// Whether a figure is missing because its measurement failed. A pair without P2P did not fail, and
// neither did what a stop left out.
bool AnyFailed(const Matrix& matrix);

}  // namespace onecopy::bench
