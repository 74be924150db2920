// One file that is open for one user.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>

#include "transport/core/store.h"
#include "transport/store/posix/lane.h"
#include "transport/store/posix/open_descriptor.h"

namespace onecopy::posix {

// What is whole grains goes by the descriptor with O_DIRECT where that is worth it, the rest by the
// other one. Of a file that is written, pieces of the two ways are never under way together: the
// page cache might write an older page over what the device has got.
class PosixFile final : public StoreFile, public std::enable_shared_from_this<PosixFile> {
 public:
  PosixFile(OpenFileRequest request, const FileFacts& facts, std::shared_ptr<Lane> lane);

  const std::string& name() const override { return request_.name; }
  uint64_t bytes() const override { return facts_.bytes; }
  void Read(uint64_t offset, Span into, Done done) override;
  void Write(uint64_t offset, Span from, Done done) override;
  FilePass PassOf(const ByteRange& range, const std::byte* memory) const override;
  uint64_t grain() const override { return direct_ ? kGrain : 1; }
  unsigned depth() const override { return 8; }
  uint64_t chunk_bytes() const override { return uint64_t{1} << 20; }
  std::string how() const override;
  Executor& executor() override { return lane_->loop(); }

 private:
  struct Piece {
    uint64_t offset = 0;
    Span span;
    uint64_t moved = 0;
    bool write = false;
    bool direct = false;
    bool waits = false;
    Done done;
  };
  using PieceRef = std::shared_ptr<Piece>;

  void Move(bool write, uint64_t offset, Span span, Done done);
  // The lane's thread, from here on.
  void Begin(PieceRef piece);
  void Continue(const PieceRef& piece);
  void Continued(const PieceRef& piece, int64_t result);
  void End(const PieceRef& piece, Status status);
  Status Short(const Piece& piece) const;
  Status Failure(int error, const Piece& piece) const;
  // Whether pieces of both ways may be under way together: only where nothing is written.
  bool exclusive() const { return request_.use == FileUse::kWrite; }

  const OpenFileRequest request_;
  const FileFacts facts_;
  const std::shared_ptr<Lane> lane_;
  std::atomic<bool> direct_;  // until the file system shows that it does not do so
  std::deque<PieceRef> waiting_;
  unsigned running_ = 0;
  bool running_direct_ = false;  // which way those go that run
};

}  // namespace onecopy::posix
