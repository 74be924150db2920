#include "transport/memory/cuda/loaded_kernel.h"

#include <utility>

#include "transport/memory/cuda/gpu.h"

namespace onecopy::cuda {

LoadedKernel::~LoadedKernel() {
  if (module_ != nullptr) gpu_.api().ModuleUnload(module_);
}

CUfunction LoadedKernel::Get() {
  if (image_ == nullptr || std::exchange(tried_, true)) return function_;
  const shim::CudaApi& api = gpu_.api();
  const CUresult loaded = api.ModuleLoadData(&module_, image_);
  // There may be room later.
  if (loaded == CUDA_ERROR_OUT_OF_MEMORY) tried_ = false;
  if (loaded != CUDA_SUCCESS) {
    module_ = nullptr;
  } else if (api.ModuleGetFunction(&function_, module_, name_) != CUDA_SUCCESS) {
    function_ = nullptr;
  }
  return function_;
}

}  // namespace onecopy::cuda
