// Bytes that differ from place to place and from seed to seed, so that bytes of an earlier sample,
// or of another place, are never taken for the right ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace onecopy::bench {

void FillPayload(std::byte* to, uint64_t bytes, uint64_t seed);

// Offset of a wrong byte's word; absent where all of it is the payload of that seed.
std::optional<uint64_t> FindWrong(const std::byte* data, uint64_t bytes, uint64_t seed);

}  // namespace onecopy::bench
