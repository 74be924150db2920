// One queue pair: reads, frames and windows, posted in order and completed in order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/core/base/fair_queue.h"
#include "transport/core/contracts/link.h"
#include "transport/link/verbs/device.h"
#include "transport/link/verbs/offer.h"
#include "transport/link/verbs/progress.h"
#include "transport/link/verbs/queue_pair.h"

namespace onecopy::verbs {

// A get that is under way; on one lane at a time.
struct Get {
  Flow flow;
  ChannelId channel = 0;
  uint64_t exported = 0;
  uint64_t key_offset = 0;
  Span into;
  std::vector<Key::Remote> remote;     // by lane
  std::span<const double> lane_rates;  // as in GetRequest
  StepList steps;
  Connection::GetDone done;
  int asked_lane = GetRequest::kAnyLane;
  unsigned lane = 0;
  uint32_t pieces = 0;  // not yet completed
  Status refused;       // why it ends so, whatever still lands for it
};
using GetRef = std::shared_ptr<Get>;

// What a lane tells its connection; on the lane's thread, never from inside a call to the lane that
// posts.
class LaneOwner {
 public:
  static constexpr uint64_t kHelloNumber = UINT64_MAX;  // of HELLO, which is not numbered

  virtual ~LaneOwner() = default;
  virtual void OnGetDone(const GetRef& get) = 0;
  virtual void OnFrame(unsigned lane, std::span<const std::byte> bytes) = 0;
  // The frames up to this number have arrived.
  virtual void OnFramesArrived(unsigned lane, uint64_t number) = 0;
  // The lane carries no more, and its queue pair is gone. `culprit` is the get that it failed on,
  // if the fault was its own.
  virtual void OnLaneFailed(unsigned lane, const Status& why, const GetRef& culprit) = 0;
};

// Lives on its thread.
class Lane final : public QueuePairEvents {
 public:
  enum class State { kConnecting, kLive, kDead };

  Lane(unsigned index, Progress& progress, std::shared_ptr<Device> device, size_t port,
       const Options& options, LaneOwner& owner);
  ~Lane() override;

  // As QueuePair has them.
  bool UseAddressFor(const Gid& remote) { return queue_pair_.UseAddressFor(remote); }
  Status Create(bool reader) { return queue_pair_.Create(progress_, this, reader); }
  QueuePairAddress address() const { return queue_pair_.address(); }
  Status Connect(const QueuePairAddress& remote) { return queue_pair_.Connect(remote); }

  State state() const { return state_; }
  void SetLive() { state_ = State::kLive; }
  // It has failed, and its owner has dealt with that.
  bool closed() const { return state_ == State::kDead && !queue_pair_.exists(); }
  bool usable() const { return queue_pair_.connected(); }
  const std::shared_ptr<Device>& device() const { return queue_pair_.device(); }
  const Port& port() const { return queue_pair_.port(); }
  size_t port_index() const { return queue_pair_.port_index(); }
  const QueuePairAddress& remote() const { return queue_pair_.remote(); }
  uint32_t number() const { return queue_pair_.number(); }

  uint64_t load_bytes() const { return load_bytes_; }
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t completions() const { return completions_; }
  // How often in a row this has been asked without anything completed or arrived in between.
  unsigned CountSilence() { return silent_ = std::exchange(active_, false) ? 0 : silent_ + 1; }

  // Queues the reads of a get; `local` is where the device sees its destination.
  void Read(const GetRef& get, uint64_t local, uint32_t lkey);
  // What is not posted yet of those is taken back, and they are refused. Returns the gets of which
  // nothing is posted.
  std::vector<GetRef> TakeQueued(const std::function<bool(const Get&)>& which, const Status& why);
  void Send(std::string frame, uint64_t number);
  // Binds a window of this lane to `bytes` at `address` of the region and answers with its key, 0
  // if it failed; Unbind ends that.
  void Bind(ibv_mr* region, uint64_t address, uint64_t bytes, UniqueFunction<void(uint32_t)> done);
  void Unbind(uint32_t rkey, Task done);

  // Nothing more is posted or completed; Close follows.
  void Stop();
  // Ends the queue pair: the device has let go of everything afterwards. Returns the gets that have
  // not completed. Binds and unbinds complete.
  std::vector<GetRef> Close();
  // The port or the device is gone.
  void Fail(const Status& why, const GetRef& culprit = nullptr);

  void OnSent(uint64_t sequence, ibv_wc_status status) override;
  void OnReceived(std::span<const std::byte> bytes) override;

 private:
  struct Piece {
    GetRef get;
    uint64_t remote = 0;
    uint64_t local = 0;
    uint32_t rkey = 0;
    uint32_t lkey = 0;
    uint32_t bytes = 0;
  };
  struct Operation {
    uint64_t sequence = 0;
    GetRef get;
    uint32_t bytes = 0;
    UniqueFunction<void(bool)> done;
  };
  struct BoundWindow {
    ibv_mw* window = nullptr;
    uint32_t rkey = 0;
  };
  // Anything but a read.
  struct Work {
    ibv_send_wr request{};
    std::string frame;
    uint64_t number = 0;  // of the frame
    UniqueFunction<void(bool)> done;
  };

  void ScheduleFlush();
  void Flush();
  bool FlushWork();
  void FlushReads();
  void Complete(Operation& operation, bool ok);

  const unsigned index_;
  Progress& progress_;
  const Options& options_;
  LaneOwner& owner_;
  QueuePair queue_pair_;
  State state_ = State::kConnecting;

  FairQueue<Piece> queued_{kFairTurnBytes};
  std::deque<Work> work_;
  std::deque<Operation> posted_;
  uint32_t reads_posted_ = 0;
  std::vector<int> free_slots_;
  std::vector<ibv_mw*> free_windows_;
  std::vector<BoundWindow> bound_windows_;
  std::vector<ibv_mw*> unbinding_;
  uint64_t next_sequence_ = 1;
  uint64_t ended_ = 0;  // the last that completed, in whatever way
  bool flush_scheduled_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  uint64_t load_bytes_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t completions_ = 0;
  bool active_ = true;
  unsigned silent_ = 0;
};

using LaneList = std::vector<std::unique_ptr<Lane>>;

}  // namespace onecopy::verbs
