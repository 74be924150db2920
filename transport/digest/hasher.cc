#include "transport/digest/hasher.h"

#include <xxhash.h>

#include <new>

namespace onecopy::digest {
namespace {

std::string Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  static_assert(sizeof canonical.digest == kDigestBytes);
  XXH128_canonicalFromHash(&canonical, hash);
  return {reinterpret_cast<const char*>(canonical.digest), kDigestBytes};
}

std::string ToHex(const std::string& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

void Hasher::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Hasher::Hasher() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();  // as for any other small allocation
  Reset();
}

void Hasher::Add(const void* data, uint64_t bytes) {
  XXH3_128bits_update(state_.get(), data, bytes);
}

std::string Hasher::Digest() const { return Canonical(XXH3_128bits_digest(state_.get())); }

std::string Hasher::Hex() const { return ToHex(Digest()); }

void Hasher::Reset() { XXH3_128bits_reset(state_.get()); }

std::string HexOf(const void* data, uint64_t bytes) {
  return ToHex(Canonical(XXH3_128bits(data, bytes)));
}

}  // namespace onecopy::digest
