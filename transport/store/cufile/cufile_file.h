// One file that is open for one user, on its direct way to memory of GPUs.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/store.h"
#include "transport/store/cufile/drive.h"
#include "transport/store/cufile/lane.h"
#include "transport/store/cufile/ledger.h"
#include "transport/store/cufile/registrations.h"

namespace onecopy::cufile {

// What all files of one store share: the library with its driver open.
struct Driver {
  std::shared_ptr<const shim::CuFileApi> api;
  std::shared_ptr<const shim::CudaApi> cuda;
  std::shared_ptr<Registrations> registrations;
  std::shared_ptr<Ledger> ledger;
  std::string root;  // of /sys and /proc, for tests
  unsigned threads = 16;
  uint64_t slice_bytes = uint64_t{4} << 20;
  unsigned batch_entries = 0;  // less than 2: pieces are moved by a call each
  std::string name;            // "libcufile 1.14, nvidia-fs 2.17"
};

class CufileFile final : public DirectFile, public std::enable_shared_from_this<CufileFile> {
 public:
  // What goes directly begins, ends and lies at multiples of this.
  static constexpr uint64_t kGrain = 4096;
  // Pieces of more than this are worth a call each.
  static constexpr uint64_t kMostInBatch = uint64_t{1} << 20;

  // `handle` is the library's of the request's descriptor with O_DIRECT, and is given back by a
  // thread of the lane's.
  // `drive`: what is known to keep it from going directly.
  CufileFile(OpenFileRequest request, uint64_t bytes, shim::cufile::Handle handle,
             DriveTrouble drive, std::shared_ptr<const Driver> driver, std::shared_ptr<Lane> lane);
  ~CufileFile() override;

  const std::string& name() const override { return request_.name; }
  uint64_t bytes() const override { return bytes_; }
  void Read(uint64_t offset, Span into, Done done) override {
    Move(false, offset, std::move(into), std::move(done));
  }
  void Write(uint64_t offset, Span from, Done done) override {
    Move(true, offset, std::move(from), std::move(done));
  }
  void MoveMany(bool write, std::vector<Piece> pieces) override;
  FilePass PassOf(const ByteRange&, const std::byte*) const override { return FilePass::kDirect; }
  uint64_t grain() const override { return kGrain; }
  unsigned depth() const override { return driver_->threads; }
  uint64_t chunk_bytes() const override { return driver_->slice_bytes; }
  std::string how() const override;
  Executor& executor() override { return lane_->loop(); }

  Result<std::shared_ptr<void>> Attach(const RegionRef& memory) override;
  Result<std::string> Prove(bool write, uint64_t offset, const Span& span) override;
  bool bounced() const override { return bounced_pieces_ > 0; }
  void Stop() override { stopped_ = true; }

 private:
  using Pieces = std::vector<Piece>;
  struct Joined {
    Ledger::Company company;
    Ledger::Window window;
  };

  Status Check(bool write, uint64_t offset, const Span& span) const;
  void Move(bool write, uint64_t offset, Span span, Done done);
  // Posts it: `done` runs on the loop's thread, which releases what it keeps.
  void End(Status status, FilePass pass, Piece piece);
  // Posts a task that waits; without a thread for it, these pieces end.
  void Wait(UniqueFunction<void(Pieces)> task, Pieces pieces);
  // Those that follow block.
  void MoveBatch(bool write, Pieces pieces);
  Status EndOfBatched(bool write, const BatchEnd& end, const Piece& piece);
  Status MoveAll(bool write, uint64_t offset, const Span& span, uint64_t* operations);
  FilePass PassTaken(const std::string& device, uint64_t pieces);
  Status NotSeen(const std::string& why) const;
  Status Stopped() const;
  std::shared_ptr<const Registration> Find(const Region& memory);

  const OpenFileRequest request_;
  const uint64_t bytes_;
  const shim::cufile::Handle handle_;
  const DriveTrouble drive_;
  const std::shared_ptr<const Driver> driver_;
  const std::shared_ptr<Lane> lane_;
  std::atomic<bool> stopped_ = false;
  std::atomic<uint64_t> direct_pieces_ = 0;
  std::atomic<uint64_t> bounced_pieces_ = 0;
  std::atomic<uint64_t> batches_ = 0;
  std::atomic<uint64_t> batched_pieces_ = 0;
  mutable Mutex mutex_;
  std::map<const Region*, std::weak_ptr<const Registration>> attached_ ONECOPY_GUARDED_BY(mutex_);
  // By GPU: what was counted before its first piece, and who else was there.
  std::map<std::string, Joined> joined_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::cufile
