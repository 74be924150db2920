#include "transport/link/verbs/lane.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::verbs {
namespace {

// Whether the far end, or this one, refused the request itself, so that it would fail on any lane.
bool IsRequestsFault(ibv_wc_status status) {
  return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
         status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_LEN_ERR ||
         status == IBV_WC_LOC_QP_OP_ERR;
}

}  // namespace

Lane::Lane(unsigned index, Progress& progress, std::shared_ptr<Device> device, size_t port,
           const Options& options, LaneOwner& owner)
    : index_(index),
      progress_(progress),
      options_(options),
      owner_(owner),
      queue_pair_(std::move(device), port, options) {
  for (uint32_t slot = 0; slot < Endpoint::kSendSlots; ++slot) {
    free_slots_.push_back(static_cast<int>(slot));
  }
}

Lane::~Lane() {
  *alive_ = false;
  Close();
}

void Lane::Read(const GetRef& get, uint64_t local, uint32_t lkey) {
  const Key::Remote& remote = get->remote[index_];
  get->lane = index_;
  get->pieces = 0;
  const uint64_t bytes = get->into.bytes;
  const uint64_t most = queue_pair_.max_read_bytes();
  for (uint64_t at = 0; at < bytes; at += most) {
    const auto length = static_cast<uint32_t>(std::min(most, bytes - at));
    queued_.Push(
        get->flow, get->channel, length + kGetCostBytes,
        {get, remote.address + get->key_offset + at, local + at, remote.rkey, lkey, length});
    ++get->pieces;
  }
  load_bytes_ += bytes;
  ScheduleFlush();
}

std::vector<GetRef> Lane::TakeQueued(const std::function<bool(const Get&)>& which,
                                     const Status& why) {
  std::vector<GetRef> taken;
  for (const Piece& piece :
       queued_.TakeIf([&](const Piece& queued) { return which(*queued.get); })) {
    load_bytes_ -= piece.bytes;
    piece.get->refused = why;
    if (--piece.get->pieces == 0) taken.push_back(piece.get);
  }
  return taken;
}

void Lane::Send(std::string frame, uint64_t number) {
  Work& work = work_.emplace_back();
  work.request.opcode = IBV_WR_SEND;
  work.frame = std::move(frame);
  work.number = number;
  ScheduleFlush();
}

// Once a turn, so that what comes together is posted together.
void Lane::ScheduleFlush() {
  if (std::exchange(flush_scheduled_, true)) return;
  progress_.loop().Post([this, alive = alive_] {
    if (!*alive) return;
    flush_scheduled_ = false;
    Flush();
  });
}

void Lane::Flush() {
  if (!usable() || state_ == State::kDead || !FlushWork()) return;
  FlushReads();
}

// False when the lane has failed.
bool Lane::FlushWork() {
  while (!work_.empty() && posted_.size() < Endpoint::kSendQueueDepth) {
    Work& work = work_.front();
    ibv_sge piece{};
    if (!work.frame.empty()) {
      if (free_slots_.empty()) return true;
      const int slot = free_slots_.back();
      free_slots_.pop_back();
      std::byte* at = queue_pair_.SendSlot(static_cast<uint32_t>(slot));
      std::memcpy(at, work.frame.data(), work.frame.size());
      piece = {reinterpret_cast<uintptr_t>(at), static_cast<uint32_t>(work.frame.size()),
               queue_pair_.slots_lkey()};
      work.request.sg_list = &piece;
      work.request.num_sge = 1;
      work.done = [this, slot, number = work.number](bool ok) {
        free_slots_.push_back(slot);
        if (ok && number > 0) owner_.OnFramesArrived(index_, number);
      };
    }
    work.request.wr_id = queue_pair_.WorkId(next_sequence_);
    work.request.send_flags = IBV_SEND_SIGNALED;
    if (!work.frame.empty() && work.frame.size() <= queue_pair_.most_inline()) {
      work.request.send_flags |= IBV_SEND_INLINE;
    }
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(queue_pair_.handle(), &work.request, &bad);
    // The device compares the old key with the new one, so it changes only now.
    if (work.request.opcode == IBV_WR_BIND_MW) {
      work.request.bind_mw.mw->rkey = work.request.bind_mw.rkey;
    }
    Operation& operation = posted_.emplace_back();
    operation.sequence = next_sequence_++;
    operation.done = std::move(work.done);
    work_.pop_front();
    if (error != 0) {
      ended_ = operation.sequence;  // nothing comes of what was not taken
      Fail({Code::kUnavailable, reasons::kLinkDown,
            "posting work on " + port().name + ": " + os::ErrnoText(error)});
      return false;
    }
    progress_.Kick();
  }
  return true;
}

void Lane::FlushReads() {
  std::array<ibv_send_wr, Endpoint::kSendQueueDepth> requests;
  std::array<ibv_sge, Endpoint::kSendQueueDepth> pieces;
  size_t count = 0;
  while (!queued_.empty() && posted_.size() < Endpoint::kSendQueueDepth &&
         reads_posted_ < options_.reads_per_lane) {
    Piece piece = queued_.Pop();
    pieces[count] = {piece.local, piece.bytes, piece.lkey};
    ibv_send_wr& request = requests[count];
    request = {};
    request.wr_id = queue_pair_.WorkId(next_sequence_);
    request.opcode = IBV_WR_RDMA_READ;
    request.sg_list = &pieces[count];
    request.num_sge = 1;
    request.wr.rdma.remote_addr = piece.remote;
    request.wr.rdma.rkey = piece.rkey;
    if (count > 0) requests[count - 1].next = &request;
    Operation& operation = posted_.emplace_back();
    operation.sequence = next_sequence_++;
    operation.bytes = piece.bytes;
    operation.get = std::move(piece.get);
    ++reads_posted_;
    ++count;
  }
  if (count == 0) return;
  // One completion speaks for all before it. With half of the reads still under way the next batch
  // is asked for.
  if (count > 1) requests[(count - 1) / 2].send_flags = IBV_SEND_SIGNALED;
  requests[count - 1].send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(queue_pair_.handle(), requests.data(), &bad)) {
    ended_ = posted_.back().sequence;
    return Fail({Code::kUnavailable, reasons::kLinkDown,
                 "posting reads on " + port().name + ": " + os::ErrnoText(error)});
  }
  progress_.Kick();
}

void Lane::Bind(ibv_mr* region, uint64_t address, uint64_t bytes,
                UniqueFunction<void(uint32_t)> done) {
  ibv_mw* window = nullptr;
  if (!free_windows_.empty()) {
    window = free_windows_.back();
    free_windows_.pop_back();
  } else {
    window = ibv_alloc_mw(device()->protection_domain(), IBV_MW_TYPE_2);
    if (window == nullptr) return done(0);
  }
  Work& work = work_.emplace_back();
  ibv_send_wr& request = work.request;
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw.mw = window;
  request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  request.bind_mw.bind_info = {region, address, bytes, IBV_ACCESS_REMOTE_READ};
  bound_windows_.push_back({window, request.bind_mw.rkey});
  work.done = [rkey = request.bind_mw.rkey, done = std::move(done)](bool ok) mutable {
    done(ok ? rkey : 0);
  };
  ScheduleFlush();
}

void Lane::Unbind(uint32_t rkey, Task done) {
  const auto found = std::find_if(bound_windows_.begin(), bound_windows_.end(),
                                  [&](const BoundWindow& bound) { return bound.rkey == rkey; });
  if (found == bound_windows_.end()) return done();  // went with the queue pair
  ibv_mw* window = found->window;
  bound_windows_.erase(found);
  Work& work = work_.emplace_back();
  work.request.opcode = IBV_WR_LOCAL_INV;
  work.request.invalidate_rkey = rkey;
  work.done = [this, window, done = std::move(done)](bool) mutable {
    if (std::erase(unbinding_, window) > 0) free_windows_.push_back(window);
    done();
  };
  unbinding_.push_back(window);
  ScheduleFlush();
}

void Lane::OnSent(uint64_t sequence, ibv_wc_status status) {
  ended_ = sequence;
  if (state_ == State::kDead) return;  // flushed; Close completes what is left
  active_ = true;
  ++completions_;
  // The queue is worked off in order: what was posted before this one is done, and well.
  while (!posted_.empty() && posted_.front().sequence <= sequence) {
    Operation operation = std::move(posted_.front());
    posted_.pop_front();
    const bool this_one = operation.sequence == sequence;
    if (!this_one || status == IBV_WC_SUCCESS) {
      Complete(operation, true);
      continue;
    }
    const GetRef get = operation.get;
    const std::string text = device()->api().WcStatusText(status);
    // Back in the line, so that closing finds it with the others.
    posted_.push_front(std::move(operation));
    return Fail({Code::kUnavailable, reasons::kLinkDown,
                 (get != nullptr ? "a read from " : "work with ") + remote().nic + " (" +
                     GidText(remote().gid) + ") over " + port().name + " failed: " + text},
                IsRequestsFault(status) ? get : nullptr);
  }
  if (!queued_.empty() || !work_.empty()) ScheduleFlush();
}

void Lane::Complete(Operation& operation, bool ok) {
  if (operation.done) operation.done(ok);
  if (operation.get == nullptr) return;
  --reads_posted_;
  load_bytes_ -= operation.bytes;
  if (!ok) return;
  bytes_read_ += operation.bytes;
  if (--operation.get->pieces == 0) owner_.OnGetDone(operation.get);
}

void Lane::OnReceived(std::span<const std::byte> bytes) {
  active_ = true;
  owner_.OnFrame(index_, bytes);
}

void Lane::Fail(const Status& why, const GetRef& culprit) {
  if (state_ == State::kDead) return;
  state_ = State::kDead;
  // Not from inside a call of the owner's.
  progress_.loop().Post([this, alive = alive_, why, culprit] {
    if (*alive) owner_.OnLaneFailed(index_, why, culprit);
  });
}

void Lane::Stop() {
  state_ = State::kDead;
  queue_pair_.Stop();
}

std::vector<GetRef> Lane::Close() {
  std::vector<GetRef> unfinished;
  Stop();
  if (!queue_pair_.exists()) return unfinished;
  const uint64_t last = posted_.empty() ? 0 : posted_.back().sequence;
  queue_pair_.Drain(last > ended_ ? last : 0);
  // Windows hold on to their queue pair, and nobody may use them any more.
  for (const BoundWindow& bound : std::exchange(bound_windows_, {})) ibv_dealloc_mw(bound.window);
  for (auto* windows : {&free_windows_, &unbinding_}) {
    for (ibv_mw* window : std::exchange(*windows, {})) ibv_dealloc_mw(window);
  }
  // Afterwards the device neither reads nor writes for it.
  queue_pair_.Destroy();
  auto add = [&](const GetRef& get) {
    if (get != nullptr && std::find(unfinished.begin(), unfinished.end(), get) == unfinished.end())
      unfinished.push_back(get);
  };
  for (Operation& operation : std::exchange(posted_, {})) {
    add(operation.get);
    Complete(operation, false);
  }
  for (const Piece& piece : queued_.TakeAll()) {
    load_bytes_ -= piece.bytes;
    add(piece.get);
  }
  for (Work& work : std::exchange(work_, {})) {
    if (work.done) work.done(false);
  }
  return unfinished;
}

}  // namespace onecopy::verbs
