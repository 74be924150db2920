#include "client/lib/files/digest.h"

#include <xxhash.h>

#include <new>

namespace onecopy::client {
namespace {

std::string ToHex(XXH128_hash_t hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

void Digest::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Digest::Digest() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();  // as for any other small allocation
  XXH3_128bits_reset(state_.get());
}

void Digest::Add(const std::byte* data, uint64_t bytes) {
  XXH3_128bits_update(state_.get(), data, bytes);
}

std::string Digest::Hex() const { return ToHex(XXH3_128bits_digest(state_.get())); }

std::string DigestOf(const std::byte* data, uint64_t bytes) {
  return ToHex(XXH3_128bits(data, bytes));
}

}  // namespace onecopy::client
