#include "transport/tls/stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace onecopy::tls {
namespace {

// Sealed, or received, at once: enough that a system call is cheap, little enough that all of it
// stays in a core's caches.
constexpr size_t kBatchRecords = 16;
constexpr size_t kBatchBytes = kBatchRecords * kMaxRecordBytes;
// Most lanes only ever ask, or are asked: what comes to them is short.
constexpr size_t kFirstBytes = 2 * kMaxRecordBytes;
constexpr size_t kMaxShared = 64;  // pieces of one record
constexpr size_t kMaxPieces = 8;   // that one record is opened to

// The first `bytes` bytes from `skip` on of these pieces; how many pieces those are, 0 where they
// have not so many.
size_t Room(const iovec* pieces, size_t count, size_t skip, size_t bytes,
            std::array<iovec, kMaxPieces>& room) {
  size_t used = 0;
  for (size_t i = 0; i < count && bytes > 0; ++i) {
    const size_t passed = std::min(skip, pieces[i].iov_len);
    skip -= passed;
    const size_t taken = std::min(bytes, pieces[i].iov_len - passed);
    if (taken == 0) continue;
    if (used == room.size()) return 0;
    room[used++] = {static_cast<char*>(pieces[i].iov_base) + passed, taken};
    bytes -= taken;
  }
  return bytes == 0 ? used : 0;
}

}  // namespace

Stream::Stream(int fd, Sealer sealer, Opener opener, const Options& options)
    : fd_(fd), options_(options), sealer_(std::move(sealer)), opener_(std::move(opener)) {}

Result<std::unique_ptr<Stream>> Stream::Make(int fd, const SessionKeys& keys,
                                             const Options& options) {
  ONECOPY_ASSIGN_OR_RETURN(Sealer sealer, Sealer::Make(keys.sending, options.records_per_key));
  ONECOPY_ASSIGN_OR_RETURN(Opener opener, Opener::Make(keys.receiving));
  return std::unique_ptr<Stream>(new Stream(fd, std::move(sealer), std::move(opener), options));
}

ssize_t Stream::Fail(int error) {
  errno = error;
  return -1;
}

bool Stream::Flush() {
  while (unsent()) {
    const ssize_t sent = ::send(fd_, out_.data() + sent_, sealed_ - sent_,
                                MSG_DONTWAIT | MSG_NOSIGNAL | (more_ ? MSG_MORE : 0));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    sent_ += static_cast<size_t>(sent);
  }
  sealed_ = sent_ = 0;
  return true;
}

ssize_t Stream::Send(const iovec* pieces, size_t count, bool more) {
  if (!Flush()) return -1;
  MakeRoom(pieces, count);
  size_t taken = 0;
  if (!SealBatch(pieces, count, &taken)) return Fail(EPROTO);
  more_ = more;
  // It is taken, whatever becomes of it; an error shows itself again with the next call.
  if (!Flush() && errno != EAGAIN) return -1;
  return static_cast<ssize_t>(taken);
}

void Stream::MakeRoom(const iovec* pieces, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  const size_t wanted = bytes > kMaxContentBytes ? kBatchBytes : kFirstBytes;
  if (out_.size() < wanted) out_.resize(wanted);
}

bool Stream::SealBatch(const iovec* pieces, size_t count, size_t* taken) {
  size_t piece = 0;
  size_t offset = 0;  // in it
  const auto is_shared = [&](size_t i) { return pieces[i].iov_len <= options_.shared_bytes; };
  while (piece < count && sealed_ + kMaxRecordBytes <= out_.size()) {
    if (sealer_.is_worn()) {
      const size_t update = sealer_.SealKeyUpdate(out_.data() + sealed_);
      if (update == 0) return false;
      sealed_ += update;
      continue;
    }
    std::array<iovec, kMaxShared> content;
    size_t used = 0;
    size_t bytes = 0;
    while (piece < count && used < content.size() && bytes < kMaxContentBytes) {
      const bool shared = is_shared(piece);
      if (used > 0 && !shared) break;
      const size_t fits = std::min(pieces[piece].iov_len - offset, kMaxContentBytes - bytes);
      if (fits > 0) {
        content[used++] = {static_cast<char*>(pieces[piece].iov_base) + offset, fits};
        bytes += fits;
        offset += fits;
      }
      if (offset < pieces[piece].iov_len) break;
      ++piece;
      offset = 0;
      if (!shared && used > 0) break;
    }
    if (bytes == 0) continue;
    const size_t record = sealer_.Seal({content.data(), used}, out_.data() + sealed_);
    if (record == 0) return false;
    sealed_ += record;
    *taken += bytes;
  }
  return true;
}

size_t Stream::NextRecord() const {
  if (in_to_ - in_from_ < kRecordHeaderBytes) return 0;
  const std::optional<size_t> length =
      Opener::LengthOf(std::span(in_).subspan(in_from_).first<kRecordHeaderBytes>());
  if (!length) return kRecordHeaderBytes;  // to be found wrong by who opens it
  return in_to_ - in_from_ < *length ? 0 : *length;
}

bool Stream::buffered() const {
  return !broken_ && (spilled_from_ < spilled_.size() || NextRecord() > 0);
}

ssize_t Stream::Receive(const iovec* pieces, size_t count) {
  if (in_.empty()) in_.resize(kFirstBytes);
  size_t total = 0;
  for (size_t i = 0; i < count; ++i) total += pieces[i].iov_len;
  size_t done = 0;
  std::array<iovec, kMaxPieces> room;
  while (done < total) {
    if (spilled_from_ < spilled_.size()) {
      const size_t bytes = std::min(total - done, spilled_.size() - spilled_from_);
      const size_t used = Room(pieces, count, done, bytes, room);
      for (size_t i = 0; i < used; ++i) {
        std::memcpy(room[i].iov_base, spilled_.data() + spilled_from_, room[i].iov_len);
        spilled_from_ += room[i].iov_len;
        done += room[i].iov_len;
      }
      if (used == 0) break;
      continue;
    }
    if (broken_) return done > 0 ? static_cast<ssize_t>(done) : Fail(EPROTO);
    const size_t length = NextRecord();
    if (length == 0) {
      if (done > 0) break;
      std::memmove(in_.data(), in_.data() + in_from_, in_to_ - in_from_);
      in_to_ -= std::exchange(in_from_, 0);
      const ssize_t got = ::recv(fd_, in_.data() + in_to_, in_.size() - in_to_, MSG_DONTWAIT);
      if (got <= 0) return got;
      in_to_ += static_cast<size_t>(got);
      if (in_to_ == in_.size() && in_.size() < kBatchBytes) in_.resize(kBatchBytes);
      continue;
    }
    const std::span<const std::byte> record = std::span(in_).subspan(in_from_, length);
    if (length <= kRecordOverhead) {
      broken_ = true;
      continue;
    }
    const size_t content = Opener::ContentOf(length);
    size_t used = Room(pieces, count, done, content, room);
    const bool spills = used == 0;
    if (spills) {
      if (done > 0) break;  // there may be room the next time
      spilled_.resize(content);
      room[0] = {spilled_.data(), content};
      used = 1;
    }
    const Opener::What what = opener_.Open(record, {room.data(), used});
    in_from_ += length;
    const bool data = what == Opener::What::kData;
    if (spills) {
      spilled_from_ = 0;
      if (!data) spilled_.clear();
    } else if (data) {
      done += content;
    }
    if (what == Opener::What::kEnd) {
      broken_ = true;
      return static_cast<ssize_t>(done);
    }
    if (what == Opener::What::kBroken) broken_ = true;
  }
  return static_cast<ssize_t>(done);
}

}  // namespace onecopy::tls
