// Bytes that differ from place to place and from seed to seed, so that bytes of an earlier sample,
// or of another place, are never taken for the right ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace onecopy::bench {

// `first`: which byte of the payload `to` begins with, a multiple of 8.
void FillPayload(std::byte* to, uint64_t bytes, uint64_t seed, uint64_t first = 0);

// Where in `data` a wrong byte's word is; absent where all of it is the payload of that seed, from
// its byte `first` (a multiple of 8) on.
std::optional<uint64_t> FindWrong(const std::byte* data, uint64_t bytes, uint64_t seed,
                                  uint64_t first = 0);

}  // namespace onecopy::bench
