// What the two processes of the test of ucx between GPUs share.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "tests/gpu/real_gpu.h"
#include "tests/support/link_pair.h"
#include "tests/support/memory.h"
#include "transport/link/ucx/ucx_link.h"
#include "transport/shim/ucx.h"

namespace onecopy::testing {

inline constexpr uint64_t kUcxSeed = 11;

// With what UCX has for this machine's processes: cuda_ipc where it knows CUDA.
inline std::unique_ptr<Link> MakeUcxLink(const std::string& node, const std::string& library) {
  ucx::LinkOptions options;
  options.node = node;
  options.library = library;
  options.chunk_bytes = 16 << 20;
  options.gets = 8;
  return ucx::UcxLink::Create(std::move(options));
}

inline std::string ToHex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

inline std::string FromHex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace onecopy::testing
