#include "transport/tls/records.h"

#include <openssl/err.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "onecopy/reasons.h"
#include "transport/tls/openssl.h"

namespace onecopy::tls {
namespace {

constexpr unsigned char kAlert = 21;
constexpr unsigned char kHandshake = 22;
constexpr unsigned char kApplicationData = 23;

constexpr unsigned char kNewSessionTicket = 4;
constexpr unsigned char kKeyUpdate = 24;
constexpr size_t kKeyUpdateBytes = 5;  // type, three of length, whether one is wanted in return

const EVP_CIPHER* EvpOf(Cipher cipher) {
  switch (cipher) {
    case Cipher::kAes128Gcm:
      return EVP_aes_128_gcm();
    case Cipher::kAes256Gcm:
      return EVP_aes_256_gcm();
    case Cipher::kChaCha20Poly1305:
      return EVP_chacha20_poly1305();
  }
  return nullptr;
}

Status Failed(const char* what) {
  return {Code::kInternal, reasons::kInternal, std::string(what) + ": " + Complaint()};
}

unsigned char* Bytes(std::byte* at) { return reinterpret_cast<unsigned char*>(at); }
const unsigned char* Bytes(const std::byte* at) {
  return reinterpret_cast<const unsigned char*>(at);
}

void WriteHeader(size_t sealed_bytes, std::byte* out) {
  out[0] = std::byte{kApplicationData};
  out[1] = std::byte{3};
  out[2] = std::byte{3};
  out[3] = static_cast<std::byte>(sealed_bytes >> 8);
  out[4] = static_cast<std::byte>(sealed_bytes & 0xff);
}

}  // namespace

Result<std::unique_ptr<RecordKey>> RecordKey::Make(DirectionKeys keys, bool sealing) {
  std::unique_ptr<RecordKey> key(new RecordKey(sealing));
  key->context_ = EVP_CIPHER_CTX_new();
  if (key->context_ == nullptr) return Failed("a TLS lane's cipher");
  ONECOPY_RETURN_IF_ERROR(key->Set(std::move(keys)));
  return key;
}

RecordKey::~RecordKey() { EVP_CIPHER_CTX_free(context_); }

Status RecordKey::Set(DirectionKeys keys) {
  keys_ = std::move(keys);
  records_ = 0;
  EVP_CIPHER_CTX_reset(context_);
  if (EVP_CipherInit_ex(context_, EvpOf(keys_.cipher), nullptr, nullptr, nullptr,
                        sealing_ ? 1 : 0) != 1 ||
      EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_IVLEN, kNonceBytes, nullptr) != 1 ||
      EVP_CipherInit_ex(context_, nullptr, nullptr, keys_.key.get().data(), nullptr, -1) != 1) {
    return Failed("a TLS lane's key");
  }
  return OkStatus();
}

Status RecordKey::Update() {
  ONECOPY_ASSIGN_OR_RETURN(DirectionKeys next, NextKeys(keys_));
  return Set(std::move(next));
}

bool RecordKey::Begin(const std::byte* header) {
  std::array<unsigned char, kNonceBytes> nonce{};
  std::copy_n(keys_.iv.get().data(), kNonceBytes, nonce.begin());
  for (size_t i = 0; i < sizeof records_; ++i) {
    nonce[kNonceBytes - 1 - i] ^= static_cast<unsigned char>(records_ >> (8 * i));
  }
  ++records_;
  int done = 0;
  return EVP_CipherInit_ex(context_, nullptr, nullptr, nullptr, nonce.data(), -1) == 1 &&
         EVP_CipherUpdate(context_, nullptr, &done, Bytes(header), kRecordHeaderBytes) == 1;
}

Result<Sealer> Sealer::Make(DirectionKeys keys, uint64_t records_per_key) {
  ONECOPY_ASSIGN_OR_RETURN(auto key, RecordKey::Make(std::move(keys), true));
  return Sealer(std::move(key), records_per_key);
}

size_t Sealer::Seal(std::span<const iovec> pieces, std::byte* out) {
  return SealAs(kApplicationData, pieces, out);
}

size_t Sealer::SealKeyUpdate(std::byte* out) {
  std::array<unsigned char, kKeyUpdateBytes> message = {kKeyUpdate, 0, 0, 1, 0};
  const iovec piece{message.data(), message.size()};
  const size_t bytes = SealAs(kHandshake, {&piece, 1}, out);
  return key_->Update().ok() ? bytes : 0;
}

size_t Sealer::SealAs(unsigned char type, std::span<const iovec> pieces, std::byte* out) {
  size_t content = 0;
  for (const iovec& piece : pieces) content += piece.iov_len;
  WriteHeader(content + 1 + kTagBytes, out);
  if (!key_->Begin(out)) return 0;
  EVP_CIPHER_CTX* const context = key_->context();
  std::byte* at = out + kRecordHeaderBytes;
  int done = 0;
  const auto seal = [&](const void* from, size_t bytes) {
    if (EVP_EncryptUpdate(context, Bytes(at), &done, static_cast<const unsigned char*>(from),
                          static_cast<int>(bytes)) != 1) {
      return false;
    }
    at += done;
    return true;
  };
  for (const iovec& piece : pieces) {
    if (!seal(piece.iov_base, piece.iov_len)) return 0;
  }
  if (!seal(&type, 1) || EVP_EncryptFinal_ex(context, Bytes(at), &done) != 1 ||
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagBytes, at) != 1) {
    return 0;
  }
  return content + kRecordOverhead;
}

Result<Opener> Opener::Make(DirectionKeys keys) {
  ONECOPY_ASSIGN_OR_RETURN(auto key, RecordKey::Make(std::move(keys), false));
  return Opener(std::move(key));
}

std::optional<size_t> Opener::LengthOf(std::span<const std::byte, kRecordHeaderBytes> header) {
  const size_t sealed =
      std::to_integer<size_t>(header[3]) << 8 | std::to_integer<size_t>(header[4]);
  const size_t length = kRecordHeaderBytes + sealed;
  const bool right = header[0] == std::byte{kApplicationData} && header[1] == std::byte{3} &&
                     header[2] == std::byte{3} && length > kRecordOverhead &&
                     length <= kMaxRecordBytes;
  return right ? std::optional(length) : std::nullopt;
}

// The other end pads no record, so its last sealed byte says what it is.
Opener::What Opener::Open(std::span<const std::byte> record, std::span<const iovec> pieces) {
  if (!key_->Begin(record.data())) return What::kBroken;
  EVP_CIPHER_CTX* const context = key_->context();
  const std::byte* at = record.data() + kRecordHeaderBytes;
  size_t left = ContentOf(record.size());
  std::array<std::byte, kKeyUpdateBytes> beginning{};  // of records without payload
  size_t begun = 0;
  int done = 0;
  for (const iovec& piece : pieces) {
    const size_t bytes = std::min(left, piece.iov_len);
    if (bytes == 0) continue;
    auto* const to = static_cast<unsigned char*>(piece.iov_base);
    if (EVP_DecryptUpdate(context, to, &done, Bytes(at), static_cast<int>(bytes)) != 1) {
      return What::kBroken;
    }
    const size_t kept = std::min(bytes, beginning.size() - begun);
    std::memcpy(beginning.data() + begun, to, kept);
    begun += kept;
    at += bytes;
    left -= bytes;
  }
  unsigned char type = 0;
  unsigned char rest[kTagBytes];
  std::memcpy(rest, at + 1, kTagBytes);
  if (left > 0 || EVP_DecryptUpdate(context, &type, &done, Bytes(at), 1) != 1 ||
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTagBytes, rest) != 1 ||
      EVP_DecryptFinal_ex(context, rest, &done) != 1) {
    ERR_clear_error();
    return What::kBroken;
  }
  if (type == kApplicationData) return What::kData;
  return Control(type, std::span(beginning).first(begun));
}

Opener::What Opener::Control(unsigned char type, std::span<const std::byte> content) {
  if (type == kAlert) {
    const bool close_notify = content.size() == 2 && content[1] == std::byte{0};
    return close_notify ? What::kEnd : What::kBroken;
  }
  if (type != kHandshake || content.empty()) return What::kBroken;
  if (content[0] == std::byte{kNewSessionTicket}) return What::kNothing;
  // One that wants another in return is not known here: each end changes its own keys when due.
  const bool update = content.size() == kKeyUpdateBytes && content[0] == std::byte{kKeyUpdate} &&
                      content[3] == std::byte{1} && content[4] == std::byte{0};
  return update && key_->Update().ok() ? What::kNothing : What::kBroken;
}

}  // namespace onecopy::tls
