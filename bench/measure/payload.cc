#include "bench/measure/payload.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace onecopy::bench {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{16} << 20;  // a multiple of a word
constexpr unsigned kMaxThreads = 8;

// The finaliser of a 64-bit hash: every bit of the place and the seed changes half of the bits.
uint64_t Mix(uint64_t word) {
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93;
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93;
  return word ^ (word >> 32);
}

uint64_t WordAt(uint64_t offset, uint64_t seed) {
  return Mix(offset + seed * 0x9E3779B97F4A7C15 + 1);
}

// Calls `work` for each piece of [0, bytes), on several threads where there are several pieces.
void ForPieces(uint64_t bytes, const std::function<void(uint64_t begin, uint64_t end)>& work) {
  const uint64_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  const uint64_t threads =
      std::min<uint64_t>({pieces, kMaxThreads, std::max(1U, std::thread::hardware_concurrency())});
  const auto every = [&](uint64_t first) {
    for (uint64_t piece = first; piece < pieces; piece += threads) {
      const uint64_t begin = piece * kPieceBytes;
      work(begin, std::min(bytes, begin + kPieceBytes));
    }
  };
  std::vector<std::jthread> others;
  for (uint64_t i = 1; i < threads; ++i) others.emplace_back(every, i);
  every(0);
}

}  // namespace

void FillPayload(std::byte* to, uint64_t bytes, uint64_t seed, uint64_t first) {
  ForPieces(bytes, [&](uint64_t begin, uint64_t end) {
    for (uint64_t at = begin; at < end; at += sizeof(uint64_t)) {
      const uint64_t word = WordAt(first + at, seed);
      std::memcpy(to + at, &word, std::min<uint64_t>(sizeof word, end - at));
    }
  });
}

std::optional<uint64_t> FindWrong(const std::byte* data, uint64_t bytes, uint64_t seed,
                                  uint64_t first) {
  std::vector<std::optional<uint64_t>> wrong((bytes + kPieceBytes - 1) / kPieceBytes);
  ForPieces(bytes, [&](uint64_t begin, uint64_t end) {
    for (uint64_t at = begin; at < end; at += sizeof(uint64_t)) {
      const uint64_t word = WordAt(first + at, seed);
      if (std::memcmp(data + at, &word, std::min<uint64_t>(sizeof word, end - at)) == 0) continue;
      wrong[begin / kPieceBytes] = at;
      return;
    }
  });
  const auto found =
      std::find_if(wrong.begin(), wrong.end(), [](const auto& one) { return one.has_value(); });
  return found == wrong.end() ? std::nullopt : *found;
}

}  // namespace onecopy::bench
