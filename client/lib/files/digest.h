// The checksum that the daemon uses, of bytes of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct XXH3_state_s;

namespace onecopy::client {

inline constexpr char kDigestAlgorithm[] = "xxh3-128";

// Of bytes that come in pieces. Used by one thread.
class Digest {
 public:
  Digest();
  void Add(const std::byte* data, uint64_t bytes);
  // Of everything added so far, in hexadecimal, most significant digit first.
  std::string Hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// Of one piece.
std::string DigestOf(const std::byte* data, uint64_t bytes);

}  // namespace onecopy::client
