// One file that is open for one user.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "transport/core/contracts/store.h"
#include "transport/store/posix/cut.h"
#include "transport/store/posix/io.h"
#include "transport/store/posix/lane.h"
#include "transport/store/posix/open_descriptor.h"

namespace onecopy::posix {

// What is whole grains goes by the descriptor with O_DIRECT where that is worth it, the rest by the
// other one. Of a file that is written, pieces of the two ways are never under way together: the
// page cache might write an older page over what the device has got. Nor are they while both are
// measured.
class PosixFile final : public StoreFile, public std::enable_shared_from_this<PosixFile> {
 public:
  // Who gave the facts their turn, if any.
  struct Known {
    std::shared_ptr<Mounts> mounts;
    std::shared_ptr<CachedReads> cached_reads;
  };
  // The lane's thread.
  PosixFile(OpenFileRequest request, FileFacts facts, const Cut& cut, Known known,
            std::shared_ptr<Lane> lane);
  ~PosixFile() override;

  const std::string& name() const override { return request_.name; }
  uint64_t bytes() const override { return facts_.bytes; }
  void Read(uint64_t offset, Span into, Done done) override;
  void Write(uint64_t offset, Span from, Done done) override;
  void Commit(const StopFlag& stop, UniqueFunction<void(Status)> done) override;
  FilePass PassOf(const ByteRange& range, const std::byte* memory) const override;
  uint64_t grain() const override { return direct_ ? kGrain : 1; }
  unsigned depth() const override {
    return ReadsPastTheCache() ? cut_.direct_read_depth : cut_.depth;
  }
  uint64_t chunk_bytes() const override {
    return ReadsPastTheCache() ? cut_.direct_read_piece_bytes : cut_.piece_bytes;
  }
  std::string how() const override;
  const DrivePlace& drive() const override { return facts_.drive; }
  Executor& executor() override { return lane_->loop(); }

 private:
  struct Piece {
    uint64_t offset = 0;
    Span span;
    uint64_t moved = 0;
    bool write = false;
    bool direct = false;
    bool waits = false;       // must be moved by a thread that waits
    bool by_threads = false;  // or is faster so
    bool hole = false;        // zeros of a new file, which need not be written
    size_t group = 0;
    Done done;
  };
  using PieceRef = std::shared_ptr<Piece>;

  bool ReadsPastTheCache() const { return direct_ && request_.use == FileUse::kRead; }
  void Move(bool write, uint64_t offset, Span span, Done done);
  // The lane's thread, from here on.
  void Begin(PieceRef piece);
  // What of a piece of a new file is written, and what stays a hole, as pieces of their own; false
  // where all of it is written.
  bool BeginRuns(const PieceRef& piece);
  void Continue(const PieceRef& piece);
  void Continued(const PieceRef& piece, int64_t result);
  void End(const PieceRef& piece, Status status);
  std::string WhoMoved() const;
  // Of a new file, which may have been made longer than what has come: as the request said.
  Status SetLength() const;
  Status Short(const Piece& piece) const;
  Status Failure(int error, const Piece& piece) const;
  // Which way it goes now, and with which others: pieces of two groups are never under way
  // together.
  void Classify(Piece& piece) const;
  // False where others must end first.
  bool Admit(const PieceRef& piece);
  void EndSegment();
  void EndTrial(const std::optional<Verdict>& verdict);
  void EndTrialOfWho();

  OpenFileRequest request_;  // constant until the end
  FileFacts facts_;
  const Cut cut_;
  IoTally tally_;
  const std::shared_ptr<Lane> lane_;
  std::atomic<bool> direct_;              // until the file system shows that it does not do so
  const bool tries_;                      // reads go either way, at the beginning
  const bool tries_who_;                  // or are made by either
  std::atomic<double> direct_to_cached_;  // as measured; 0: not known
  std::atomic<double> threads_to_ring_;   // likewise, where that is of interest
  std::atomic<uint64_t> written_to_ = 0;  // where the last byte ends that is written
  std::atomic<uint64_t> in_holes_ = 0;    // bytes that were not written, as they are zero
  // The lane's thread.
  const Known known_;  // goes after the turns
  int place_ = -1;     // of the descriptors among those that the ring knows
  int direct_place_ = -1;
  bool by_threads_ = false;  // what is read out of the page cache
  std::optional<Trial> trial_;
  std::deque<PieceRef> waiting_;
  unsigned running_ = 0;
  size_t running_group_ = 0;   // of those that run, or that ran last
  unsigned most_running_ = 0;  // of that group, at a time
  std::chrono::steady_clock::time_point running_since_;
  std::chrono::duration<double> group_time_{0};  // while some of it ran
};

}  // namespace onecopy::posix
