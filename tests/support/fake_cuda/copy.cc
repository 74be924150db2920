// The fake driver's copies, and what memory they reach.
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/fake_cuda/state.h"

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::FindRange;
using fake_cuda::Range;
using fake_cuda::TheState;

namespace {

bool Reaches(const Context& context, const Range& range) {
  if (range.kind == FAKE_CUDA_VMM || range.kind == FAKE_CUDA_VMM_NO_HANDLE) {
    return range.reached_by.contains(context.device);
  }
  if (range.device == context.device) return true;
  for (const Context* peer : context.peers) {
    if (peer->device == range.device) return true;
  }
  return false;
}

// Mappings of cuMemCreate that lie side by side are as one.
bool ReachesDevice(const Context& context, CUdeviceptr address, size_t bytes) {
  for (bool first = true;; first = false) {
    CUdeviceptr start = 0;
    const Range* const range = FindRange(address, 1, &start);
    if (range == nullptr || !Reaches(context, *range)) return false;
    const bool mapped = range->kind == FAKE_CUDA_VMM || range->kind == FAKE_CUDA_VMM_NO_HANDLE;
    if (!first && !mapped) return false;
    const size_t here = start + range->bytes - address;
    if (bytes <= here) return true;
    if (!mapped) return false;
    address += here;
    bytes -= here;
  }
}

// What the real driver does of its own accord where an end was opened in another GPU's context, or
// where a test asks for it.
bool IsStaged(const Context& context, CUdeviceptr to, CUdeviceptr from) {
  const Range* const there = FindRange(to, 1);
  const Range* const here = FindRange(from, 1);
  const char* const text = std::getenv("FAKE_CUDA_STAGES");
  const std::string asked = text == nullptr ? "" : text;
  const bool legacy = there->imported && there->kind == FAKE_CUDA_LEGACY;
  if (legacy && there->device != context.device) return true;
  if (asked == "all") return there->device != here->device || legacy;
  return asked == "imported" && legacy;
}

void CopyThroughHost(void* to, const void* from, size_t bytes) {
  constexpr int kTimesSlower = 20;
  std::vector<char> host(bytes);
  for (int i = 0; i < kTimesSlower; ++i) std::memcpy(host.data(), from, bytes);
  std::memmove(to, host.data(), bytes);
}

// A copy must reach both ends by itself.
CUresult Copy(uintptr_t to, bool to_device, uintptr_t from, bool from_device, size_t bytes,
              CUstream stream) {
  const Context* const context = Current();
  if (!fake_cuda::IsCurrent(stream)) return CUDA_ERROR_INVALID_CONTEXT;
  bool staged = false;
  {
    const std::lock_guard lock(TheState().mutex);
    const auto reaches = [&](uintptr_t address, bool device) {
      return device ? ReachesDevice(*context, address, bytes)
                    : fake_cuda::IsPinned(reinterpret_cast<const void*>(address), bytes);
    };
    if (!reaches(to, to_device) || !reaches(from, from_device)) return CUDA_ERROR_INVALID_VALUE;
    staged = to_device && from_device && bytes > 0 && IsStaged(*context, to, from);
    if (staged) TheState().staged_bytes += bytes;
  }
  fake_cuda::Submit(stream, [=] {
    auto* const target = reinterpret_cast<void*>(to);
    const auto* const source = reinterpret_cast<const void*>(from);
    if (staged) return CopyThroughHost(target, source, bytes);
    std::memmove(target, source, bytes);
  });
  return CUDA_SUCCESS;
}

}  // namespace

namespace fake_cuda {

bool IsPinned(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for (const auto& [device, context] : TheState().contexts) {
    for (const auto& [pinned, length] : context.pins) {
      const auto first = reinterpret_cast<uintptr_t>(pinned);
      if (begin >= first && begin + bytes <= first + length) return true;
    }
  }
  return false;
}

bool Reaches(const Context& context, uintptr_t address, size_t bytes) {
  return ReachesDevice(context, address, bytes) ||
         IsPinned(reinterpret_cast<const void*>(address), bytes);
}

}  // namespace fake_cuda

extern "C" {

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return Copy(to, true, reinterpret_cast<uintptr_t>(from), false, bytes, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(reinterpret_cast<uintptr_t>(to), false, from, true, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(to, true, from, true, bytes, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream) {
  if (to_context == nullptr || from_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return Copy(to, true, from, true, bytes, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  const Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    const std::lock_guard lock(TheState().mutex);
    if (!ReachesDevice(*context, to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult error = fake_cuda::Check(stream); error != CUDA_SUCCESS) return error;
  fake_cuda::Submit(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return CUDA_SUCCESS;
}

size_t fakeCudaStagedBytes() {
  const std::lock_guard lock(TheState().mutex);
  return TheState().staged_bytes;
}

}  // extern "C"
