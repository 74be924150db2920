// A user's program: registers GPU memory of its own with the daemon of its node and keeps it there.
//   cuda_user RUN_DIR NAME malloc|vmm|two|async|pool|unshared|managed DEVICE BYTES OFFSET SEED
// Fills the piece with the pattern of SEED, prints "registered", then answers each line of its
// standard input "check SEED" with "right" or what is wrong. Ends at the end of its input.
#include <cstdio>
#include <iostream>
#include <sstream>
#include <vector>

#include "onecopy/client.h"
#include "tests/gpu/user_memory.cuh"
#include "tests/support/memory.h"

namespace onecopy::testing {
namespace {

MemoryKind KindOf(const std::string& name) {
  if (name == "malloc") return MemoryKind::kMalloc;
  if (name == "vmm") return MemoryKind::kVmm;
  if (name == "two") return MemoryKind::kVmmTwo;
  if (name == "async") return MemoryKind::kMallocAsync;
  if (name == "pool") return MemoryKind::kPool;
  if (name == "unshared") return MemoryKind::kVmmNoHandle;
  if (name == "managed") return MemoryKind::kMallocManaged;
  throw Failure{"no kind " + name};
}

std::vector<std::byte> PatternOf(uint64_t bytes, uint64_t seed) {
  std::vector<std::byte> pattern(bytes);
  for (uint64_t i = 0; i < bytes; ++i) pattern[i] = PatternAt(i, seed);
  return pattern;
}

std::string Compare(const unsigned char* data, uint64_t bytes, uint64_t seed) {
  std::vector<std::byte> there(bytes);
  CHECK_CUDA(cudaMemcpy(there.data(), data, bytes, cudaMemcpyDeviceToHost));
  const std::vector<std::byte> wanted = PatternOf(bytes, seed);
  for (uint64_t i = 0; i < bytes; ++i) {
    if (there[i] != wanted[i]) return "wrong at " + std::to_string(i);
  }
  return "right";
}

void Run(char** argv) {
  const uint64_t bytes = std::stoull(argv[5]);
  const uint64_t offset = std::stoull(argv[6]);
  const MemoryKind kind = KindOf(argv[3]);
  // Of two allocations the second one begins in the middle.
  const uint64_t each = kind == MemoryKind::kVmmTwo ? (offset + bytes + 1) / 2 : offset + bytes;
  unsigned char* data = Allocate(kind, std::stoi(argv[4]), each) + offset;
  const std::vector<std::byte> pattern = PatternOf(bytes, std::stoull(argv[7]));
  CHECK_CUDA(cudaMemcpy(data, pattern.data(), bytes, cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaDeviceSynchronize());
  Result<Client> client = Client::Connect({.run_dir = argv[1], .program = "cuda_user"});
  if (!client.ok()) throw Failure{client.status().ToString()};
  const Result<BufferInfo> registered =
      client->RegisterCuda(argv[2], reinterpret_cast<uintptr_t>(data), bytes);
  if (!registered.ok()) throw Failure{registered.status().ToString()};
  std::cout << "registered" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string word;
    uint64_t seed = 0;
    words >> word >> seed;
    std::cout << (word == "check" ? Compare(data, bytes, seed) : "no command") << std::endl;
  }
}

}  // namespace
}  // namespace onecopy::testing

int main(int argc, char** argv) {
  onecopy::shim::UsePciBusOrder();
  try {
    if (argc != 8) throw onecopy::testing::Failure{"wrong arguments"};
    onecopy::testing::Run(argv);
  } catch (const onecopy::testing::Failure& failure) {
    std::cout << failure.what << std::endl;
    return 1;
  }
  return 0;
}
