#include "client/lib/files/proof.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/digest/hasher.h"
#include "transport/os/base/error.h"

namespace onecopy::client {
namespace {

constexpr uint64_t kBlocksAtOnce = 256;  // summed by one call, between two looks at the waiter
constexpr size_t kMostPieces = 1024;     // of one request

// Ranges are added in order; those that touch become one.
void Append(std::vector<ByteRange>* ranges, const ByteRange& next) {
  if (!ranges->empty() && ranges->back().offset + ranges->back().bytes >= next.offset) {
    ByteRange& last = ranges->back();
    last.bytes = std::max(last.bytes, next.offset + next.bytes - last.offset);
  } else {
    ranges->push_back(next);
  }
}

// Whole blocks in which the file has data. A file system that has no holes has data everywhere.
Result<std::vector<ByteRange>> WithData(const ProvenFile& file, uint64_t bytes,
                                        const Waiter& waiter) {
  std::vector<ByteRange> found;
  for (uint64_t at = 0; at < bytes;) {
    ONECOPY_RETURN_IF_ERROR(waiter.Check());
    const off_t data = ::lseek(file.fd, static_cast<off_t>(file.offset + at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    const off_t hole = data < 0 ? data : ::lseek(file.fd, data, SEEK_HOLE);
    if (hole < 0) return std::vector<ByteRange>{{0, bytes}};
    const uint64_t first = static_cast<uint64_t>(data) - file.offset;
    const uint64_t end = std::min(bytes, static_cast<uint64_t>(hole) - file.offset);
    if (first >= bytes) break;
    const uint64_t from = first / kProofBlockBytes * kProofBlockBytes;
    at = std::min(bytes, (end + kProofBlockBytes - 1) / kProofBlockBytes * kProofBlockBytes);
    Append(&found, {from, at - from});
  }
  return found;
}

// Fewer bytes than asked for where the file has ended.
Result<uint64_t> ReadBlock(const ProvenFile& file, uint64_t at, uint64_t bytes, std::byte* to) {
  uint64_t got = 0;
  while (got < bytes) {
    const ssize_t count =
        ::pread(file.fd, to + got, bytes - got, static_cast<off_t>(file.offset + at + got));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return os::ErrnoStatus(errno, "reading " + file.name);
    if (count == 0) break;
    got += static_cast<uint64_t>(count);
  }
  return got;
}

// Joins what is nearest until a request takes all of it.
void JoinNear(std::vector<ByteRange>* missing) {
  for (uint64_t gap = kProofBlockBytes; missing->size() > kMostPieces; gap *= 2) {
    std::vector<ByteRange> joined;
    for (const ByteRange& next : *missing) {
      if (!joined.empty() && next.offset - (joined.back().offset + joined.back().bytes) <= gap) {
        joined.back().bytes = next.offset + next.bytes - joined.back().offset;
      } else {
        joined.push_back(next);
      }
    }
    *missing = std::move(joined);
  }
}

class Proving {
 public:
  Proving(Client& client, const ProvenFile& file, const RemoteRange& range, const Waiter& waiter)
      : client_(client), file_(file), range_(range), waiter_(waiter), block_(kProofBlockBytes) {}

  Result<Proof> Run() {
    std::vector<ByteRange> looked_at = {{0, range_.bytes}};
    if (file_.holes_are_missing) {
      ONECOPY_ASSIGN_OR_RETURN(looked_at, WithData(file_, range_.bytes, waiter_));
    }
    for (const ByteRange& run : looked_at) {
      for (uint64_t at = 0; at < run.bytes; at += kBlocksAtOnce * kProofBlockBytes) {
        if (file_.all_or_nothing && at_ < run.offset + at) return Proof{0, {{0, range_.bytes}}};
        ONECOPY_RETURN_IF_ERROR(
            Compare({run.offset + at, std::min(run.bytes - at, kBlocksAtOnce * kProofBlockBytes)}));
      }
    }
    Miss(range_.bytes);
    JoinNear(&missing_);
    Proof proof{range_.bytes, std::move(missing_)};
    for (const ByteRange& gap : proof.missing) proof.proven_bytes -= gap.bytes;
    return proof;
  }

 private:
  // All from the last proven byte to here is missing.
  void Miss(uint64_t end) {
    if (end > at_) Append(&missing_, {at_, end - at_});
  }

  Status Compare(const ByteRange& part) {
    ONECOPY_RETURN_IF_ERROR(waiter_.Check());
    Result<BufferSum> sums =
        client_.SumBlocks({range_.Piece(part.offset, part.bytes), kProofBlockBytes}, waiter_.stop(),
                          waiter_.Remaining());
    if (const Status over = waiter_.Check(); !sums.ok() && !over.ok()) sums = over;
    if (sums.ok() && sums->algorithm != digest::kAlgorithm) {
      sums = Status(
          Code::kUnimplemented, reasons::kNotServed,
          "the daemon sums by " + sums->algorithm + ", and this client by " + digest::kAlgorithm,
          "install the same version of onecopyd and of its clients");
    }
    if (!sums.ok()) {
      return sums.status().WithContext("proving what " + file_.name + " and " + range_.buffer.node +
                                       ":" + range_.buffer.name + " have in common");
    }
    for (size_t i = 0; i < sums->blocks.size(); ++i) {
      ONECOPY_RETURN_IF_ERROR(waiter_.Check());
      const uint64_t at = part.offset + i * kProofBlockBytes;
      const uint64_t bytes = std::min(kProofBlockBytes, part.offset + part.bytes - at);
      ONECOPY_ASSIGN_OR_RETURN(const uint64_t got, ReadBlock(file_, at, bytes, block_.data()));
      if (got < bytes || digest::HexOf(block_.data(), bytes) != sums->blocks[i]) {
        if (file_.all_or_nothing) return OkStatus();
        continue;
      }
      Miss(at);
      at_ = at + bytes;
    }
    return OkStatus();
  }

  Client& client_;
  const ProvenFile& file_;
  const RemoteRange& range_;
  const Waiter& waiter_;
  std::vector<std::byte> block_;
  uint64_t at_ = 0;  // behind the last block that was proven
  std::vector<ByteRange> missing_;
};

}  // namespace

Result<Proof> ProveBlocks(Client& client, const ProvenFile& file, const RemoteRange& range,
                          const Waiter& waiter) {
  return Proving(client, file, range, waiter).Run();
}

}  // namespace onecopy::client
