#include "transport/link/verbs/progress.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "transport/os/machine/numa.h"

namespace onecopy::verbs {
namespace {

constexpr int kCompletionsPerPoll = 32;
constexpr int kPollsPerTurn = 8;
constexpr std::chrono::hours kUntilToldOtherwise{24};

Status Failed(const Device& device, const char* what) {
  return QueueRefused(device.name(), what, errno == 0 ? EIO : errno);
}

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::Create(std::shared_ptr<Device> device) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(device)));
  ONECOPY_RETURN_IF_ERROR(endpoint->Open());
  return endpoint;
}

Status Endpoint::Open() {
  const shim::VerbsApi& api = device_->api();
  const ibv_device_attr& limits = device_->attributes();
  constexpr uint32_t kSlots = kReceiveSlots + kMaxQueuePairs * kSendSlots;
  ONECOPY_ASSIGN_OR_RETURN(slab_, os::MapAnonymous(kSlots * kSlotBytes));
  const auto address = reinterpret_cast<uintptr_t>(slab_.data());
  ibv_mr* slots = api.RegMr(device_->protection_domain(), slab_.data(), kSlots * kSlotBytes,
                            address, IBV_ACCESS_LOCAL_WRITE);
  if (slots == nullptr) return HostRefused(*device_, kSlots * kSlotBytes, errno == 0 ? EIO : errno);
  slots_ = MemoryRegion(device_, slots, address);
  channel_ = api.CreateCompChannel(device_->context());
  if (channel_ == nullptr) return Failed(*device_, "completion channel");
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  const auto depth = std::min<int>(
      limits.max_cqe, kMaxQueuePairs * kSendQueueDepth + static_cast<int>(kReceiveSlots));
  cq_ = api.CreateCq(device_->context(), depth, nullptr, channel_, 0);
  if (cq_ == nullptr) return Failed(*device_, "completion queue");
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = kReceiveSlots;
  wanted.attr.max_sge = 1;
  srq_ = api.CreateSrq(device_->protection_domain(), &wanted);
  if (srq_ == nullptr) return Failed(*device_, "shared receive queue");
  places_.resize(kMaxQueuePairs);
  for (uint32_t slot = 0; slot < kReceiveSlots; ++slot) PostReceive(slot);
  Arm();
  return OkStatus();
}

Endpoint::~Endpoint() {
  const shim::VerbsApi& api = device_->api();
  if (srq_ != nullptr) api.DestroySrq(srq_);
  if (cq_ != nullptr) api.DestroyCq(cq_);
  if (channel_ != nullptr) api.DestroyCompChannel(channel_);
}

std::optional<uint32_t> Endpoint::Join(QueuePairEvents* events) {
  if (joined_ == kMaxQueuePairs) return std::nullopt;
  for (uint32_t place = 0; place < kMaxQueuePairs; ++place) {
    if (places_[place] != nullptr) continue;
    places_[place] = events;
    ++joined_;
    return place;
  }
  return std::nullopt;
}

void Endpoint::Announce(uint32_t place, uint32_t queue_pair_number) {
  by_number_[queue_pair_number] = places_[place];
}

void Endpoint::Leave(uint32_t place, uint32_t queue_pair_number) {
  places_[place] = nullptr;
  by_number_.erase(queue_pair_number);
  // Its place and its number may be given to another: nothing of it may be left by then.
  FetchAll();
  std::erase_if(fetched_, [&](const ibv_wc& completion) {
    const bool received = completion.wr_id >> 48 == 0;
    if (received && completion.qp_num == queue_pair_number) {
      PostReceive(static_cast<uint32_t>(completion.wr_id));
      return true;
    }
    return completion.wr_id >> 48 == place + 1;
  });
  --joined_;
}

std::byte* Endpoint::SendSlot(uint32_t place, uint32_t slot) const {
  return slab_.data() + (kReceiveSlots + place * kSendSlots + slot) * kSlotBytes;
}

void Endpoint::PostReceive(uint32_t slot) {
  ibv_sge piece{};
  piece.addr = slots_.base() + slot * kSlotBytes;
  piece.length = kMaxFrameBytes;
  piece.lkey = slots_.lkey();
  ibv_recv_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  // The queue has room for all slots; a device that is lost takes none, and is told so by an event.
  (void)ibv_post_srq_recv(srq_, &request, &bad);
}

int Endpoint::Fetch() {
  std::array<ibv_wc, kCompletionsPerPoll> completions;
  const int count = ibv_poll_cq(cq_, static_cast<int>(completions.size()), completions.data());
  if (count > 0) fetched_.insert(fetched_.end(), completions.begin(), completions.begin() + count);
  return std::max(count, 0);
}

void Endpoint::FetchAll() {
  while (Fetch() > 0) {
  }
}

bool Endpoint::HasFetched(uint32_t place, uint64_t sequence) const {
  return std::any_of(fetched_.begin(), fetched_.end(), [&](const ibv_wc& completion) {
    return completion.wr_id >> 48 == place + 1 && (completion.wr_id & kSequenceMask) >= sequence;
  });
}

// Handling one completion may end queue pairs, and so take others out of the line.
int Endpoint::Poll() {
  int total = 0;
  for (int turn = 0; turn < kPollsPerTurn; ++turn) {
    const int count = Fetch();
    total += count;
    while (!fetched_.empty()) {
      const ibv_wc completion = fetched_.front();
      fetched_.pop_front();
      Dispatch(completion);
    }
    if (count == 0) break;
  }
  return total;
}

void Endpoint::Dispatch(const ibv_wc& completion) {
  const auto place = static_cast<uint32_t>(completion.wr_id >> 48);
  if (place > 0) {
    QueuePairEvents* events = places_[place - 1];
    if (events != nullptr) events->OnSent(completion.wr_id & kSequenceMask, completion.status);
    return;
  }
  const auto slot = static_cast<uint32_t>(completion.wr_id);
  const auto found = by_number_.find(completion.qp_num);
  if (completion.status == IBV_WC_SUCCESS && found != by_number_.end()) {
    found->second->OnReceived({slab_.data() + slot * kSlotBytes, completion.byte_len});
  }
  PostReceive(slot);
}

void Endpoint::Arm() { (void)ibv_req_notify_cq(cq_, 0); }

void Endpoint::ClearEvents() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  unsigned events = 0;
  while (device_->api().GetCqEvent(channel_, &cq, &context) == 0) ++events;
  if (events > 0) device_->api().AckCqEvents(cq_, events);
}

Progress::Progress(unsigned index, os::Clock::duration spin, const std::string& cpus)
    : spin_(spin), thread_("verbs-" + std::to_string(index)) {
  // The poller says itself how long it wants to spin.
  thread_.RunSync([this, &cpus] {
    if (!cpus.empty() && os::BindThread(cpus)) cpus_ = cpus;
    loop().SetPoller([this] { return Poll(); }, kUntilToldOtherwise, os::Clock::duration(0));
  });
}

Progress::~Progress() { Stop(); }

Result<Endpoint*> Progress::Find(const std::shared_ptr<Device>& device) {
  for (const auto& endpoint : endpoints_) {
    if (&endpoint->device() == device.get() && endpoint->HasRoom()) return endpoint.get();
  }
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Endpoint> endpoint, Endpoint::Create(device));
  Endpoint* raw = endpoint.get();
  ONECOPY_RETURN_IF_ERROR(loop().Watch(raw->fd(), EPOLLIN, [this, raw](uint32_t) {
    raw->ClearEvents();
    loop().KickPoller();
  }));
  endpoints_.push_back(std::move(endpoint));
  return raw;
}

void Progress::Kick() {
  if (spin_ <= os::Clock::duration(0)) return;  // the channel will tell
  last_ = os::Clock::now();
  loop().KickPoller();
}

bool Progress::Poll() {
  int done = 0;
  for (size_t i = 0; i < endpoints_.size(); ++i) done += endpoints_[i]->Poll();
  if (done > 0) {
    if (spin_ > os::Clock::duration(0)) last_ = os::Clock::now();
    return true;
  }
  if (spin_ > os::Clock::duration(0) && os::Clock::now() - last_ < spin_) return true;
  for (const auto& endpoint : endpoints_) endpoint->Arm();
  // What completed before it was armed tells nobody.
  for (size_t i = 0; i < endpoints_.size(); ++i) done += endpoints_[i]->Poll();
  return done > 0;
}

void Progress::Stop() {
  thread_.RunSync([this] {
    for (const auto& endpoint : endpoints_) loop().Unwatch(endpoint->fd());
  });
  thread_.StopAndJoin();
  endpoints_.clear();
}

}  // namespace onecopy::verbs
