// Inside the fake: what exists. One lock for everything.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "tests/support/fake_verbs/fake_verbs.h"

#undef ibv_query_port

namespace onecopy::fake_verbs {

struct FakeDevice {
  ibv_device device{};  // first: the library's users hold its address
  PlantedDevice planted;
  bool swallows = false;
};

struct FakeContext {
  ibv_context context{};
  FakeDevice* device = nullptr;
  std::deque<ibv_async_event> events;
};

struct FakeRegion {
  ibv_mr mr{};
  std::byte* memory = nullptr;
  uint64_t base = 0;
  unsigned access = 0;
  void* mapped = nullptr;  // of a dma-buf
  size_t mapped_bytes = 0;
};

struct FakeWindow {
  ibv_mw window{};
  const FakeRegion* region = nullptr;  // null: not bound
  uint32_t queue_pair = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

struct FakeCompletions {
  ibv_cq cq{};
  std::deque<ibv_wc> entries;
  bool armed = false;
};

struct FakeReceives {
  ibv_srq srq{};
  std::deque<std::pair<ibv_recv_wr, ibv_sge>> entries;
};

struct FakeQueuePair {
  ibv_qp qp{};
  FakeDevice* device = nullptr;
  size_t record = 0;  // in State::queue_pairs
  ibv_qp_attr init{};
  // Of a queue pair in error: the entry that its receiver had already taken, until the queue is
  // polled next.
  std::deque<std::pair<ibv_recv_wr, ibv_sge>> taken;
  bool owes_last_receive = false;
  std::deque<uint64_t> swallowed;  // what never completes, but by an error
};

struct State {
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<FakeDevice>> devices;
  std::map<uint64_t, std::vector<Segment>> layouts;
  std::vector<Registration> registrations;
  std::vector<QueuePair> queue_pairs;
  std::set<FakeContext*> contexts;
  std::map<uint32_t, std::unique_ptr<FakeRegion>> regions;  // by key
  std::set<FakeWindow*> windows;
  std::map<uint32_t, FakeQueuePair*> live;  // by number
  uint32_t next_key = 0x100;
  uint32_t next_number = 0x11;
  uint64_t lost_receives = 0;
};

State& TheState();

// With the lock.
FakeDevice& DeviceOf(ibv_context* context);
void Raise(ibv_context* context, const ibv_async_event& event);
void Complete(FakeCompletions& queue, const ibv_wc& completion);
// Where a queue pair's own key, or a peer's, leads; null where it opens no such bytes.
std::byte* Local(uint32_t key, uint64_t address, uint64_t bytes);
std::byte* Remote(const FakeQueuePair& owner, uint32_t key, uint64_t address, uint64_t bytes);

// The functions that verbs.h calls by the device's own table.
ibv_mw* AllocateWindow(ibv_pd* domain, ibv_mw_type type);
int FreeWindow(ibv_mw* window);
int PostSend(ibv_qp* queue_pair, ibv_send_wr* request, ibv_send_wr** bad);
int PostReceive(ibv_srq* queue, ibv_recv_wr* request, ibv_recv_wr** bad);
int Poll(ibv_cq* queue, int most, ibv_wc* completions);
int RequestNotification(ibv_cq* queue, int solicited_only);

}  // namespace onecopy::fake_verbs
