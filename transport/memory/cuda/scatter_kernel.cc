#include "transport/memory/cuda/scatter_kernel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "transport/memory/cuda/gpu.h"

// Made from scatter.cu: see CMakeLists.txt.
extern "C" const unsigned char* const onecopy_scatter_image;

namespace onecopy::cuda {
namespace {

constexpr unsigned kBlocksPerProcessor = 8;  // 2,048 threads, which is all that one holds
constexpr size_t kMinRoom = 1024;

}  // namespace

const unsigned char* ScatterImage() { return onecopy_scatter_image; }

ScatterKernel::ScatterKernel(Gpu& gpu)
    : gpu_(gpu), kernel_(gpu, gpu.options().scatter_image, "onecopy_scatter") {}

ScatterKernel::~ScatterKernel() {
  for (const List& list : all_) gpu_.api().MemFreeHost(list.tiles);
}

bool ScatterKernel::Works(bool over_pcie) {
  if (!std::exchange(tried_, true)) works_ = kernel_.Get() != nullptr && Learn() == CUDA_SUCCESS;
  return works_ && (reaches_host_ || !over_pcie);
}

CUresult ScatterKernel::Learn() {
  const shim::CudaApi& api = gpu_.api();
  int processors = 0;
  int reaches = 0;
  const CUdevice device = gpu_.info().device;
  CUresult error =
      api.DeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  if (error == CUDA_SUCCESS) {
    error = api.DeviceGetAttribute(
        &reaches, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device);
  }
  most_blocks_ = static_cast<unsigned>(std::max(processors, 1)) * kBlocksPerProcessor;
  reaches_host_ = reaches != 0;
  return error;
}

CUresult ScatterKernel::Take(size_t tiles, List* list) {
  const auto fits =
      std::find_if(idle_.begin(), idle_.end(), [&](const List& one) { return one.room >= tiles; });
  if (fits != idle_.end()) {
    *list = *fits;
    idle_.erase(fits);
    return CUDA_SUCCESS;
  }
  return Make(tiles, list);
}

CUresult ScatterKernel::Reserve(size_t lists, size_t tiles) {
  CUresult error = CUDA_SUCCESS;
  for (size_t i = 0; error == CUDA_SUCCESS && i < lists; ++i) {
    List list;
    error = Make(tiles, &list);
    if (error == CUDA_SUCCESS) idle_.push_back(list);
  }
  return error;
}

CUresult ScatterKernel::Make(size_t tiles, List* list) {
  List made;
  made.room = std::bit_ceil(std::max(tiles, kMinRoom));
  void* memory = nullptr;
  const CUresult error =
      gpu_.api().MemHostAlloc(&memory, made.room * sizeof(ScatterTile), CU_MEMHOSTALLOC_DEVICEMAP);
  if (error != CUDA_SUCCESS) return error;
  made.tiles = static_cast<ScatterTile*>(memory);
  all_.push_back(made);
  *list = made;
  return CUDA_SUCCESS;
}

CUresult ScatterKernel::Launch(std::span<const ScatterTile> tiles, CUstream stream, List* list) {
  const CUresult taken = Take(tiles.size(), list);
  if (taken != CUDA_SUCCESS) return taken;
  std::copy(tiles.begin(), tiles.end(), list->tiles);
  // With one address for host and device, as everywhere where a kernel is 64-bit.
  const ScatterTile* first = list->tiles;
  auto count = static_cast<uint32_t>(tiles.size());
  std::array<void*, 2> parameters = {static_cast<void*>(&first), static_cast<void*>(&count)};
  const unsigned blocks = std::min(count, most_blocks_);
  return gpu_.api().LaunchKernel(kernel_.Get(), blocks, 1, 1, kScatterThreads, 1, 1, 0, stream,
                                 parameters.data(), nullptr);
}

}  // namespace onecopy::cuda
