#include "daemon/engine/staging/checksum.h"

#include <algorithm>
#include <deque>
#include <future>
#include <vector>

#include "daemon/engine/staging/slots.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr uint64_t kPiece = uint64_t{8} << 20;        // of one turn
constexpr uint64_t kReadBytes = uint64_t{256} << 10;  // at once, of what has no memory
constexpr uint32_t kSlots = 8;                  // copies under way while earlier ones are read
constexpr uint64_t kTurn = uint64_t{64} << 20;  // then others may have the slots
constexpr uint64_t kLeastByDevice = uint64_t{8} << 20;  // slots take as long for less
constexpr std::chrono::milliseconds kLook{100};         // for a stop, while waiting for slots

uint64_t PayloadOf(const ByteRange& range, const LayoutRef& layout) {
  return layout == nullptr ? range.bytes : layout->bytes();
}

Status Stopped() { return {Code::kCancelled, reasons::kCancelled, "the checksum was stopped"}; }

// Bytes of a region that the processor reaches; those that have no memory get none.
class Summand {
 public:
  explicit Summand(const Region& region) : region_(region) {}

  // What follows, so many bytes or a few more, is in memory or not.
  void Look() { sparse_ = region_.backing() != nullptr && !region_.backing()->IsFull(); }
  Status AddTo(Summing& hasher, uint64_t offset, uint64_t bytes) {
    if (!sparse_ || !region_.backing()->HasHoles(offset, bytes)) {
      hasher.Add(region_.address() + offset, bytes);
      return OkStatus();
    }
    read_.resize(kReadBytes);
    for (uint64_t at = 0; at < bytes; at += kReadBytes) {
      const uint64_t some = std::min(kReadBytes, bytes - at);
      ONECOPY_RETURN_IF_ERROR(region_.backing()->Read(offset + at, read_.data(), some));
      hasher.Add(read_.data(), some);
    }
    return OkStatus();
  }

 private:
  const Region& region_;
  bool sparse_ = false;
  std::vector<std::byte> read_;
};

// The reading of memory that the processor reads itself: a piece at a time, between which others'
// have their turn on the worker.
class InPlaceSum : public std::enable_shared_from_this<InPlaceSum> {
 public:
  InPlaceSum(Workers& workers, Executor& engine, WorkQueue queue, RegionRef region,
             const ByteRange& range, LayoutRef layout, const WantedSums& wanted,
             std::shared_ptr<const std::atomic<bool>> stop, Reply<Sums> reply)
      : workers_(workers),
        engine_(engine),
        queue_(std::move(queue)),
        region_(std::move(region)),
        range_(range),
        layout_(std::move(layout)),
        stop_(std::move(stop)),
        reply_(std::move(reply)),
        summand_(*region_),
        hasher_(wanted) {}

  // `next`: after a turn, so that what has begun ends before more of the payer's begins.
  void Go(bool next = false) {
    Task turn = [self = shared_from_this()] { self->TakeTurn(); };
    if (Status posted = workers_.Post(queue_, turn, next); !posted.ok()) End(std::move(posted));
  }

 private:
  void TakeTurn() {
    if (*stop_) return End(Stopped());
    summand_.Look();
    const Result<bool> over = layout_ == nullptr ? AddRange() : AddPieces(*layout_);
    if (!over.ok()) return End(over.status());
    if (!*over) return Go(true);
    if (Status intact = region_->CheckIntact(); !intact.ok()) return End(std::move(intact));
    End(hasher_.Take());
  }

  // Each adds up to a piece, and says whether that was the last one.

  Result<bool> AddRange() {
    const uint64_t bytes = std::min(kPiece, range_.bytes - done_);
    ONECOPY_RETURN_IF_ERROR(summand_.AddTo(hasher_, range_.offset + done_, bytes));
    done_ += bytes;
    return done_ == range_.bytes;
  }

  Result<bool> AddPieces(const Layout& layout) {
    for (uint64_t left = kPiece; left > 0 && piece_ < layout.size();) {
      const StridedRange piece = layout.piece(piece_);
      const uint64_t element = range_.offset + piece.offset + element_ * piece.stride;
      const uint64_t bytes = std::min(left, piece.bytes - done_);
      ONECOPY_RETURN_IF_ERROR(summand_.AddTo(hasher_, element + done_, bytes));
      left -= bytes;
      done_ += bytes;
      if (done_ < piece.bytes) break;
      done_ = 0;
      if (++element_ == piece.count) {
        element_ = 0;
        ++piece_;
      }
    }
    return piece_ == layout.size();
  }

  void End(Result<Sums> sum) {
    engine_.Post([self = shared_from_this(), sum = std::move(sum)]() mutable {
      std::exchange(self->reply_, nullptr)(std::move(sum));
    });
  }

  Workers& workers_;
  Executor& engine_;
  const WorkQueue queue_;
  const RegionRef region_;
  const ByteRange range_;
  const LayoutRef layout_;
  const std::shared_ptr<const std::atomic<bool>> stop_;
  Reply<Sums> reply_;
  Summand summand_;
  Summing hasher_;
  size_t piece_ = 0;      // of the layout
  uint64_t element_ = 0;  // of that piece
  uint64_t done_ = 0;     // of that element; without a layout, of the range
};

// Has the memory's own device sum the whole leaves of a range, at most a GiB in each turn on the
// worker. If the device cannot do that, or has no room for it, it adds 0 bytes, and the caller sums
// the whole range through slots.
class DeviceSum : public std::enable_shared_from_this<DeviceSum> {
 public:
  struct Params {
    Memory* memory = nullptr;
    RegionRef region;
    ByteRange range;
    std::shared_ptr<Summing> hasher;
    std::shared_ptr<const std::atomic<bool>> stop;
    WorkQueue queue;
  };
  DeviceSum(Workers& workers, Executor& engine, Params params, Reply<uint64_t> reply)
      : workers_(workers), engine_(engine), params_(std::move(params)), reply_(std::move(reply)) {}

  // Replies with the number of bytes that it added. `next`: as in InPlaceSum.
  void Go(bool next = false) {
    Task turn = [self = shared_from_this()] { self->TakeTurn(); };
    if (Status posted = workers_.Post(params_.queue, turn, next); !posted.ok()) {
      End(std::move(posted));
    }
  }

 private:
  static constexpr uint64_t kTurnBytes = uint64_t{1} << 30;

  void TakeTurn() {
    if (*params_.stop) return End(Stopped());
    const uint64_t whole = params_.range.bytes / Memory::kLeafBytes * Memory::kLeafBytes;
    std::vector<Memory::LeafSum> sums(std::min(kTurnBytes, whole - done_) / Memory::kLeafBytes);
    const Status summed =
        params_.memory->SumLeaves(*params_.region, params_.range.offset + done_, sums);
    // A device that has summed the first leaves must sum them all.
    const bool cannot =
        summed.reason() == reasons::kNotApplicable || summed.code() == Code::kResourceExhausted;
    if (done_ == 0 && cannot) return End(done_);
    if (!summed.ok()) return End(summed);
    for (const Memory::LeafSum& sum : sums) params_.hasher->AddLeaf(sum);
    done_ += sums.size() * Memory::kLeafBytes;
    if (done_ < whole) return Go(true);
    if (Status intact = params_.region->CheckIntact(); !intact.ok()) return End(std::move(intact));
    End(done_);
  }

  void End(Result<uint64_t> done) {
    engine_.Post([self = shared_from_this(), done = std::move(done)]() mutable {
      std::exchange(self->reply_, nullptr)(std::move(done));
    });
  }

  Workers& workers_;
  Executor& engine_;
  const Params params_;
  Reply<uint64_t> reply_;
  uint64_t done_ = 0;
};

// The reading of memory that the processor cannot read: by turns, between which slots that others
// want go back. Engine thread, except Read.
class SlotSum : public std::enable_shared_from_this<SlotSum> {
 public:
  struct Params {
    RegionRef region;
    ByteRange range;
    LayoutRef layout;
    std::shared_ptr<Summing> hasher;  // which may have begun
    std::shared_ptr<const std::atomic<bool>> stop;
    std::string owner;
    WorkQueue queue;
    Flow flow;
  };

  SlotSum(Context& context, std::shared_ptr<Slots> slots, Params params, Reply<Sums> reply)
      : context_(context),
        slots_(std::move(slots)),
        params_(std::move(params)),
        reply_(std::move(reply)),
        hasher_(*params_.hasher) {}

  void Start() {
    if (payload() == 0) return End(hasher_.Take());
    slots_->Slab([self = shared_from_this()](Result<RegionRef> slab) {
      if (!slab.ok()) return self->End(slab.status());
      self->slab_ = std::move(*slab);
      Slots::Params params;
      // Into a client's slab go copies by its client for sending alone: see process-memory.md.
      const bool clients = self->params_.region->slab() != nullptr;
      params.purpose = clients ? Purpose::kSend : Purpose::kReceive;
      params.owner = self->params_.owner;
      params.payer = self->params_.queue.payer;
      params.payload = self->payload();
      params.most = kSlots;
      params.executor = &self->context_.loop;
      self->share_ = self->slots_->Open(std::move(params), [self] { self->TakeTurn(); });
      self->LookForStop();
    });
  }

 private:
  uint64_t payload() const { return PayloadOf(params_.range, params_.layout); }

  // Nobody else would wake what waits for slots.
  void LookForStop() {
    if (!reply_) return;
    if (*params_.stop && turn_.empty()) return End(Stopped());
    context_.loop.RunAfter(kLook, [self = shared_from_this()] { self->LookForStop(); });
  }

  void TakeTurn() {
    if (!reply_ || !turn_.empty()) return;
    while (turn_.size() < kSlots && turn_.size() * share_->slot_bytes() < payload() - done_) {
      const auto piece = share_->Take(share_->slot_bytes());
      if (!piece) break;
      turn_.push_back(piece->first);
    }
    if (turn_.empty() && done_ < payload()) {
      return share_->OnMore([self = weak_from_this()] {
        if (const auto sum = self.lock()) sum->TakeTurn();
      });
    }
    context_.workers.Run<bool>(
        params_.queue, [self = shared_from_this()] { return self->Read(); },
        [self = shared_from_this()](const Result<bool>& read) {
          for (const uint32_t slot : std::exchange(self->turn_, {})) self->share_->Return(slot);
          if (!read.ok()) return self->End(read.status());
          if (self->done_ == self->payload()) return self->End(self->hasher_.Take());
          self->TakeTurn();
        });
  }

  // The worker's. Copies run ahead of the reading by as many slots as there are.
  Result<bool> Read() {
    if (route_ == nullptr) {
      Copier* memory = context_.CopierFor(params_.region->place(), slab_->place());
      ONECOPY_ASSIGN_OR_RETURN(route_, memory->Prepare(params_.region, slab_));
      route_->SetFlow(params_.flow);
    }
    struct Copying {
      std::future<Status> done;
      uint64_t at = 0;  // in the slab
      uint64_t bytes = 0;
    };
    const uint64_t end = std::min(payload(), done_ + kTurn);
    std::deque<Copying> copying;
    Status failure;
    uint64_t started = done_;
    size_t next_slot = 0;
    while (started < end || !copying.empty()) {
      while (failure.ok() && !*params_.stop && started < end && copying.size() < turn_.size()) {
        auto done = std::make_shared<std::promise<Status>>();
        Copying next{done->get_future(), share_->at(turn_[next_slot]),
                     std::min(share_->slot_bytes(), end - started)};
        const auto copied = [done](Status status, const StepList&) {
          done->set_value(std::move(status));
        };
        if (params_.layout == nullptr) {
          route_->Copy(params_.range.offset + started, next.at, next.bytes, copied);
        } else {
          route_->CopyMany(CopiesOf({params_.layout.get(), params_.range.offset},
                                    {nullptr, next.at}, started, next.bytes),
                           copied);
        }
        started += next.bytes;
        next_slot = (next_slot + 1) % turn_.size();
        copying.push_back(std::move(next));
      }
      if (copying.empty()) break;
      if (Status copied = copying.front().done.get(); !copied.ok() && failure.ok())
        failure = copied;
      if (failure.ok()) {
        hasher_.Add(slab_->address() + copying.front().at, copying.front().bytes);
        done_ += copying.front().bytes;
      }
      copying.pop_front();
    }
    if (!failure.ok()) return failure;
    if (*params_.stop) return Stopped();
    return true;
  }

  void End(Result<Sums> sum) {
    if (share_ != nullptr) share_->OnMore(nullptr);
    share_.reset();
    // The route may have to be released on a thread that may block.
    if (route_ != nullptr) (void)context_.workers.ShareAny(params_.queue, std::move(route_));
    std::exchange(reply_, nullptr)(std::move(sum));
  }

  Context& context_;
  const std::shared_ptr<Slots> slots_;
  const Params params_;
  Reply<Sums> reply_;
  RegionRef slab_;
  pipeline::SlotShareRef share_;
  std::vector<uint32_t> turn_;  // slots that are being used
  std::unique_ptr<CopyRoute> route_;
  Summing& hasher_;
  uint64_t done_ = 0;
};

}  // namespace

void Checksums::SumBlocks(RegionRef region, const ByteRange& range, LayoutRef layout,
                          uint64_t block_bytes, StopRef stop, const Owner& payer,
                          Reply<Sums> reply) {
  WantedSums wanted{.block_bytes = block_bytes};
  if (block_bytes == 0) wanted = {.whole = true, .tree_payload = PayloadOf(range, layout)};
  Sum(std::move(region), range, std::move(layout), wanted, std::move(stop), payer,
      std::move(reply));
}

void Checksums::SumTree(RegionRef region, const ByteRange& range, LayoutRef layout, StopRef stop,
                        const Owner& payer, Reply<digest::TreeSum> reply) {
  const uint64_t payload = PayloadOf(range, layout);
  Sum(std::move(region), range, std::move(layout), {.tree_payload = payload}, std::move(stop),
      payer, [reply = std::move(reply)](Result<Sums> sums) mutable {
        if (!sums.ok()) return reply(sums.status());
        reply(std::move(sums->tree));
      });
}

void Checksums::Sum(RegionRef region, const ByteRange& range, LayoutRef layout,
                    const WantedSums& wanted, StopRef stop, const Owner& payer, Reply<Sums> reply) {
  const Place& place = region->place();
  // A thread of its own: a long reading must not hold up allocations.
  WorkQueue queue("sum " + (place.device.empty() ? place.kind : place.device), payer);
  if (region->cpu_addressable()) {
    std::make_shared<InPlaceSum>(context_.workers, context_.loop, std::move(queue),
                                 std::move(region), range, std::move(layout), wanted,
                                 std::move(stop), std::move(reply))
        ->Go();
    return;
  }
  // No other owner may see what one of them leaves in slots.
  std::shared_ptr<Slots> slots = slots_.For(*region);
  auto hasher = std::make_shared<Summing>(wanted);
  Memory* const memory = context_.FindMemory(place.kind);
  const bool by_device = memory != nullptr && layout == nullptr && hasher->TakesLeaves() &&
                         range.bytes >= kLeastByDevice;
  SlotSum::Params params{std::move(region), range,
                         std::move(layout), std::move(hasher),
                         std::move(stop),   "checksum " + std::to_string(++sums_),
                         std::move(queue),  context_.flows.Of(payer, payer.node)};
  auto through_slots = [this, slots = std::move(slots)](SlotSum::Params rest,
                                                        Reply<Sums> told) mutable {
    std::make_shared<SlotSum>(context_, std::move(slots), std::move(rest), std::move(told))
        ->Start();
  };
  if (!by_device) return through_slots(std::move(params), std::move(reply));
  DeviceSum::Params by_leaves{memory,        params.region, range,
                              params.hasher, params.stop,   params.queue};
  auto summed = [params = std::move(params), through_slots = std::move(through_slots),
                 reply = std::move(reply)](const Result<uint64_t>& bytes) mutable {
    if (!bytes.ok()) return reply(bytes.status());
    params.range = {params.range.offset + *bytes, params.range.bytes - *bytes};
    through_slots(std::move(params), std::move(reply));
  };
  std::make_shared<DeviceSum>(context_.workers, context_.loop, std::move(by_leaves),
                              std::move(summed))
      ->Go();
}

}  // namespace onecopy::engine
