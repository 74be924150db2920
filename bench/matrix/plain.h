// The figures of plain CUDA, for every pair of a machine's GPUs.
#pragma once

#include <functional>
#include <string>

#include "bench/ceiling/gpu.h"
#include "bench/matrix/figures.h"

namespace onecopy::bench {

struct PlainOptions {
  CudaRef api = {};
  std::function<bool()> stopped = {};                  // asked before each sample
  std::function<void(const std::string&)> began = {};  // told what is measured now
};

// What the driver shows this process, in its order.
Result<std::vector<MatrixGpu>> ListGpus(const shim::CudaApi& api);

// INVALID_ARGUMENT (BAD_ARGUMENT) for no bytes, and for more than the GPUs' memory holds.
Status CheckSize(uint64_t bytes, const std::vector<MatrixGpu>& gpus);

// Fills in p2p_off and through_host_… of each of `matrix->pairs`, then enables peer access wherever
// there is one, which stays so while this runs, and fills in p2p_on. What cannot be measured says
// so in its figure. An error: a GPU did not open. Holds the GPUs' primary contexts meanwhile;
// nothing else of this process may have enabled peer access in them.
Status MeasurePlain(const PlainOptions& options, Matrix* matrix);

}  // namespace onecopy::bench
