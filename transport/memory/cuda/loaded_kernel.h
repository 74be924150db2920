// One kernel in one GPU's context.
#pragma once

#include "transport/shim/cuda.h"

namespace onecopy::cuda {

class Gpu;

// One thread at a time, with the GPU's context current; the context must be open throughout.
class LoadedKernel {
 public:
  // `image` has the kernel for every architecture; null where this was built without nvcc.
  LoadedKernel(Gpu& gpu, const unsigned char* image, const char* name)
      : gpu_(gpu), image_(image), name_(name) {}
  ~LoadedKernel();  // nothing may be under way
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;

  // The first call loads the kernel. Null if there is no image, or the driver does not load it: a
  // driver that is older than the compiler may not.
  CUfunction Get();

 private:
  Gpu& gpu_;
  const unsigned char* const image_;
  const char* const name_;
  bool tried_ = false;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

}  // namespace onecopy::cuda
