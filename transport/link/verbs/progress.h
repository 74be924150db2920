// A thread that drives queue pairs, and the queues that they share there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "onecopy/result.h"
#include "transport/link/verbs/control.h"
#include "transport/link/verbs/device.h"
#include "transport/link/verbs/memory_region.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::verbs {

// What a queue pair is told by its thread.
class QueuePairEvents {
 public:
  virtual ~QueuePairEvents() = default;
  // `sequence` as it was posted with; see Endpoint::WorkId.
  virtual void OnSent(uint64_t sequence, ibv_wc_status status) = 0;
  virtual void OnReceived(std::span<const std::byte> bytes) = 0;
};

// One completion queue with its channel, the shared receive queue, and buffers for frames. Serves a
// bounded number of queue pairs, so that the completion queue cannot overflow. Lives on its thread.
class Endpoint {
 public:
  static constexpr uint32_t kMaxQueuePairs = 64;
  static constexpr uint32_t kSendSlots = 8;         // for frames, per queue pair
  static constexpr uint32_t kSendQueueDepth = 128;  // work requests of one queue pair

  static Result<std::unique_ptr<Endpoint>> Create(std::shared_ptr<Device> device);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Device& device() const { return *device_; }
  ibv_cq* completion_queue() const { return cq_; }
  ibv_srq* receive_queue() const { return srq_; }
  int fd() const { return channel_->fd; }

  // A place for one more queue pair: what its work requests carry to find it again. Nothing where
  // it is full.
  bool HasRoom() const { return joined_ < kMaxQueuePairs; }
  std::optional<uint32_t> Join(QueuePairEvents* events);
  // Takes everything from the completion queue, for Poll to handle.
  void FetchAll();
  // Whether a completion of that work, or of later work of that place, waits to be handled.
  bool HasFetched(uint32_t place, uint64_t sequence) const;
  // After the queue pair is destroyed: what it left in the completion queue is thrown away.
  void Leave(uint32_t place, uint32_t queue_pair_number);
  void Announce(uint32_t place, uint32_t queue_pair_number);
  static uint64_t WorkId(uint32_t place, uint64_t sequence) {
    return (static_cast<uint64_t>(place + 1) << 48) | (sequence & kSequenceMask);
  }

  std::byte* SendSlot(uint32_t place, uint32_t slot) const;
  uint32_t slots_lkey() const { return slots_.lkey(); }

  // Handles what has completed, a bounded part of it; how much.
  int Poll();
  // From now on the channel's descriptor becomes readable with the next completion.
  void Arm();
  void ClearEvents();  // of the channel

 private:
  static constexpr uint64_t kSequenceMask = (uint64_t{1} << 48) - 1;
  static constexpr uint32_t kReceiveSlots = 512;
  static constexpr size_t kSlotBytes = (kMaxFrameBytes + 63) / 64 * 64;

  explicit Endpoint(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Status Open();
  void PostReceive(uint32_t slot);
  int Fetch();  // from the completion queue; how many
  void Dispatch(const ibv_wc& completion);

  const std::shared_ptr<Device> device_;
  os::Mapping slab_;
  MemoryRegion slots_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  std::vector<QueuePairEvents*> places_;
  std::unordered_map<uint32_t, QueuePairEvents*> by_number_;
  uint32_t joined_ = 0;
  std::deque<ibv_wc> fetched_;  // in order, not yet handled
};

// Any thread, except what says otherwise.
class Progress {
 public:
  // `cpus`: where the thread is to run, see os::BindThread; empty: anywhere.
  Progress(unsigned index, os::Clock::duration spin, const std::string& cpus);
  ~Progress();

  os::EventLoop& loop() { return thread_.loop(); }
  const std::string& cpus() const { return cpus_; }  // that it is bound to; empty: to none

  // Own thread: queues of that device with room for one more queue pair.
  Result<Endpoint*> Find(const std::shared_ptr<Device>& device);
  // Own thread: work was posted; looks for its completion for a while before it sleeps.
  void Kick();

  void RunSync(Task task) { thread_.RunSync(std::move(task)); }
  void Stop();  // after every queue pair has left

 private:
  bool Poll();

  const os::Clock::duration spin_;
  std::string cpus_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  os::Clock::time_point last_;
  os::LoopThread thread_;  // after what it uses
};

}  // namespace onecopy::verbs
