// GPU memory of another process in this one.
#pragma once

#include <memory>
#include <optional>

#include "client/lib/memory/mapping.h"
#include "onecopy/result.h"
#include "transport/shim/cuda.h"

namespace onecopy::client {

// For kernels on the GPU with that number, as this process counts, or on the one where the memory
// lies. The GPU's primary context is held open by it. NOT_FOUND (DEVICE_NOT_FOUND) for a GPU that
// this process does not see, FAILED_PRECONDITION (NO_PEER_ACCESS, DRIVER_FAILED).
Result<std::unique_ptr<MappedMemory>> MapCuda(std::shared_ptr<const shim::CudaApi> api,
                                              GivenMemory& given, std::optional<int> wanted);

}  // namespace onecopy::client
