// Records of TLS 1.3 (RFC 8446, section 5), made and opened in this process, where the kernel does
// not. Payload is read where it lies and written where it belongs: each end passes over it once.
#pragma once

#include <openssl/evp.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "transport/tls/keys.h"

namespace onecopy::tls {

inline constexpr size_t kRecordHeaderBytes = 5;
inline constexpr size_t kMaxContentBytes = size_t{16} << 10;
// Beside the content: header, type of the content, tag.
inline constexpr size_t kRecordOverhead = kRecordHeaderBytes + 1 + kTagBytes;
inline constexpr size_t kMaxRecordBytes = kMaxContentBytes + kRecordOverhead;

// Of one direction's records; both ends count alike. GCM's keys are good for so many.
inline constexpr uint64_t kRecordsPerKey = uint64_t{1} << 24;

// One key of one direction, and the number of the next record.
class RecordKey {
 public:
  static Result<std::unique_ptr<RecordKey>> Make(DirectionKeys keys, bool sealing);
  RecordKey(const RecordKey&) = delete;
  RecordKey& operator=(const RecordKey&) = delete;
  ~RecordKey();

  // Begins the next record, of that header.
  bool Begin(const std::byte* header);
  EVP_CIPHER_CTX* context() const { return context_; }
  uint64_t records() const { return records_; }  // begun with this key
  Status Update();                               // the next key

 private:
  explicit RecordKey(bool sealing) : sealing_(sealing) {}
  Status Set(DirectionKeys keys);

  const bool sealing_;
  EVP_CIPHER_CTX* context_ = nullptr;
  DirectionKeys keys_;
  uint64_t records_ = 0;
};

class Sealer {
 public:
  static Result<Sealer> Make(DirectionKeys keys, uint64_t records_per_key = kRecordsPerKey);

  // Seals these pieces, 1 to kMaxContentBytes together, as one record: its bytes, written to `out`
  // (room for kRecordOverhead more), 0 where OpenSSL fails.
  size_t Seal(std::span<const iovec> pieces, std::byte* out);
  // Whether the key has served its time: before the next record SealKeyUpdate tells the other end
  // so.
  bool is_worn() const { return key_->records() >= records_per_key_; }
  size_t SealKeyUpdate(std::byte* out);

 private:
  Sealer(std::unique_ptr<RecordKey> key, uint64_t records_per_key)
      : key_(std::move(key)), records_per_key_(records_per_key) {}
  size_t SealAs(unsigned char type, std::span<const iovec> pieces, std::byte* out);

  std::unique_ptr<RecordKey> key_;
  uint64_t records_per_key_;
};

class Opener {
 public:
  static Result<Opener> Make(DirectionKeys keys);

  // The length of the record that begins so, its header included; nothing for what is none.
  static std::optional<size_t> LengthOf(std::span<const std::byte, kRecordHeaderBytes> header);
  // How much content a record of that length has.
  static size_t ContentOf(size_t record_bytes) { return record_bytes - kRecordOverhead; }

  enum class What {
    kData,     // the content was written
    kNothing,  // no payload: a new key, for example
    kEnd,      // the other end has nothing more to say
    kBroken,   // not the far end's record, or one that this end cannot use
  };
  // Opens a whole record into these pieces, which have room for its content. What is written may
  // not be used unless this says kData.
  What Open(std::span<const std::byte> record, std::span<const iovec> pieces);

 private:
  explicit Opener(std::unique_ptr<RecordKey> key) : key_(std::move(key)) {}
  What Control(unsigned char type, std::span<const std::byte> content);

  std::unique_ptr<RecordKey> key_;
};

}  // namespace onecopy::tls
