// The digest of a secret that others will present.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string_view>

namespace onecopy::engine {

// SHA-256 of a secret: enough to recognise it, and useless to a program that reads this process's
// memory. Secrets are random and long, so that no salt is needed, and that comparing digests tells
// nothing by the time it takes.
class SecretDigest {
 public:
  SecretDigest() = default;
  explicit SecretDigest(std::string_view secret);

  friend auto operator<=>(const SecretDigest&, const SecretDigest&) = default;

 private:
  std::array<uint8_t, 32> bytes_{};
};

}  // namespace onecopy::engine
