// xxh3-128: XXH3's 128 bits, without a seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct XXH3_state_s;

namespace onecopy::digest {

inline constexpr char kAlgorithm[] = "xxh3-128";
inline constexpr uint64_t kDigestBytes = 16;
using DigestBytes = std::array<std::byte, kDigestBytes>;

// Of bytes that come in pieces. One thread at a time.
class Hasher {
 public:
  Hasher();

  void Add(const void* data, uint64_t bytes);
  // Of all that was added since it was made or reset, in XXH3's canonical (big-endian) form.
  std::string Digest() const;
  // Likewise in hexadecimal.
  std::string Hex() const;
  void Reset();

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// Of one piece, in hexadecimal.
std::string HexOf(const void* data, uint64_t bytes);
// A digest in hexadecimal.
std::string HexOf(const DigestBytes& digest);
// The digest of one piece, as bytes. Allocates nothing.
DigestBytes DigestOf(const void* data, uint64_t bytes);

}  // namespace onecopy::digest
