#include "transport/digest/hasher.h"

#include <xxhash.h>

#include <cstring>
#include <new>

namespace onecopy::digest {
namespace {

std::string Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  static_assert(sizeof canonical.digest == kDigestBytes);
  XXH128_canonicalFromHash(&canonical, hash);
  return {reinterpret_cast<const char*>(canonical.digest), kDigestBytes};
}

template <typename Bytes>
std::string ToHex(const Bytes& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const auto byte : digest) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
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

std::string HexOf(const DigestBytes& digest) { return ToHex(digest); }

DigestBytes DigestOf(const void* data, uint64_t bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
  DigestBytes digest;
  std::memcpy(digest.data(), canonical.digest, digest.size());
  return digest;
}

}  // namespace onecopy::digest
