#include "transport/link/verbs/connection.h"

#include <algorithm>
#include <utility>

#include "transport/core/reasons.h"
#include "transport/link/verbs/wire.h"
#include "transport/os/host_port.h"

namespace onecopy::verbs {
namespace {

constexpr std::chrono::seconds kWithdrawLimit{2};
constexpr std::chrono::milliseconds kByeLimit{500};
constexpr size_t kMostStepLists = 64;
constexpr double kLeastRate = 1e-3;  // bytes per second: of a lane that is a last resort

std::string EncodeStatus(const Status& status) {
  Writer out;
  out.Put(static_cast<uint8_t>(status.code()));
  out.PutText(status.reason().substr(0, 64));
  out.PutText(status.message().substr(0, 255));
  return out.Take();
}

Status Withdrawn() {
  return {Code::kPermissionDenied, reasons::kAccessDenied, "the right to read was withdrawn"};
}

Status DecodeStatus(std::string_view text, const std::string& peer) {
  Reader in(text);
  in.Get<uint8_t>();
  const std::string reason = in.GetText();
  const std::string message = in.GetText();
  return {Code::kUnavailable, in.ok() && !reason.empty() ? reason : std::string(reasons::kLinkDown),
          "node " + peer + " closed the connection: " + message};
}

}  // namespace

VerbsConnection::VerbsConnection(const Options& options, std::string peer, Progress& progress,
                                 std::vector<std::shared_ptr<Device>> devices,
                                 std::shared_ptr<MemoryTable> memory, SlowCalls slow)
    : options_(options),
      peer_(std::move(peer)),
      progress_(progress),
      home_(progress.loop()),
      devices_(std::move(devices)),
      memory_(std::move(memory)),
      exposures_(peer_, home_, *memory_, std::move(slow), lanes_),
      control_(lanes_, [this](const Frame& frame) { Deliver(frame); }) {}

void VerbsConnection::InHome(Task task) {
  if (home_.InThread()) return task();
  home_.Post(std::move(task));
}

unsigned VerbsConnection::depth() const {
  return std::max(live_lanes_.load(), 1U) * options_.reads_per_lane;
}

LinkAccess VerbsConnection::Access(const RemoteKey& text, const Region& into) const {
  const Result<Key> key = DecodeKey(text);
  const std::shared_ptr<const KnownMemory> known = memory_->Find(into);
  LinkAccess access;
  std::string here = "none";
  for (size_t i = 0; known != nullptr && i < known->devices.size(); ++i) {
    if (known->devices[i]->region) here = known->devices[i]->how;
  }
  if (!key.ok() || key->bytes == 0) return access;
  access.registration = key->registration == here ? here : key->registration + " > " + here;
  access.key = key->window ? "window" : "lease";
  return access;
}

void VerbsConnection::Get(const GetRequest& request, GetDone done) {
  if (home_.InThread()) return StartGet(request, std::move(done));
  home_.Post([self = shared_from_this(), request, done = std::move(done)]() mutable {
    self->StartGet(request, std::move(done));
  });
}

Status VerbsConnection::CheckGet(const GetRequest& request, const Result<Key>& key) const {
  if (shut_) return why_;
  ONECOPY_RETURN_IF_ERROR(key.status());
  if (request.key_offset > key->bytes || request.into.bytes > key->bytes - request.key_offset) {
    return {Code::kPermissionDenied, reasons::kAccessDenied, "a read beyond what was opened"};
  }
  if (IsWithdrawn(key->id)) return Withdrawn();
  if (request.lane != GetRequest::kAnyLane && static_cast<size_t>(request.lane) >= lanes_.size()) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "the read names a lane that this verbs connection does not have"};
  }
  return OkStatus();
}

void VerbsConnection::StartGet(const GetRequest& request, GetDone done) {
  Result<Key> key = DecodeKey(*request.key);
  Status status = CheckGet(request, key);
  auto get = std::make_shared<verbs::Get>();
  get->done = std::move(done);
  if (status.ok()) {
    get->channel = request.channel;
    get->exposure = key->id;
    get->key_offset = request.key_offset;
    get->into = request.into;
    get->lane_rates = request.lane_rates;
    get->remote = std::move(key->lanes);
    get->asked_lane = request.lane;
    status = Assign(get);
  }
  if (!status.ok() || get->into.bytes == 0) {
    if (status.ok()) get->steps = StepsOf(key->memory, *get->into.region, *lanes_[get->lane]);
    return home_.Post([get, status] { get->done(status, get->steps, get->lane); });
  }
  get->steps = StepsOf(key->memory, *get->into.region, *lanes_[get->lane]);
  ++reading_[get->exposure];
  gets_.insert(get);
}

Status VerbsConnection::Assign(const GetRef& get) {
  const std::shared_ptr<const KnownMemory> known = memory_->Find(*get->into.region);
  if (known == nullptr) {
    return {Code::kFailedPrecondition, reasons::kNotApplicable,
            "memory of " + get->into.region->step_name() + " is not registered with verbs"};
  }
  const bool empty = get->into.bytes == 0;
  Lane* best = nullptr;
  const DeviceMemory* memory = nullptr;
  double best_wait = 0;
  for (unsigned i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    if (lane.state() != Lane::State::kLive) continue;
    if (get->asked_lane != GetRequest::kAnyLane && static_cast<unsigned>(get->asked_lane) != i) {
      continue;
    }
    if (!empty && (i >= get->remote.size() || get->remote[i].rkey == 0)) continue;
    if (get->exposure < repairs_[i].first_exposure) continue;  // its key is of a former lane
    const DeviceMemory* on = known->On(lane.device().get());
    if (on == nullptr) continue;
    const double rate = i < get->lane_rates.size()
                            ? get->lane_rates[i]
                            : static_cast<double>(lane.port().bytes_per_second);
    const double wait =
        static_cast<double>(lane.load_bytes() + get->into.bytes) / std::max(rate, kLeastRate);
    if (best != nullptr && wait >= best_wait) continue;
    best = &lane;
    memory = on;
    best_wait = wait;
    get->lane = i;
  }
  if (best == nullptr) {
    return {Code::kUnavailable, reasons::kLinkDown,
            "no lane to node " + peer_ + " carries this memory" +
                (last_failure_.ok() ? "" : "; " + last_failure_.message())};
  }
  if (!empty) {
    best->Read(get, memory->region.base() + get->into.offset, memory->region.lkey());
  }
  return OkStatus();
}

void VerbsConnection::OnGetDone(const GetRef& get) { EndGet(get, get->refused); }

void VerbsConnection::EndGet(const GetRef& get, const Status& status) {
  if (gets_.erase(get) == 0) return;
  GetDone done = std::exchange(get->done, nullptr);
  get->into.region.reset();
  const uint64_t exposure = get->exposure;
  done(status, get->steps, get->lane);
  const auto reading = reading_.find(exposure);
  if (reading == reading_.end() || --reading->second > 0) return;
  reading_.erase(reading);
  if (to_acknowledge_.erase(exposure) > 0) control_.Send(FrameKind::kWithdrawn, exposure, {});
}

void VerbsConnection::CancelGets(ChannelId channel) {
  InHome([self = shared_from_this(), channel] {
    self->EndQueued([channel](const verbs::Get& get) { return get.channel == channel; },
                    {Code::kCancelled, reasons::kCancelled, "the get was cancelled"});
  });
}

void VerbsConnection::EndQueued(const std::function<bool(const verbs::Get&)>& which,
                                const Status& why) {
  for (const auto& lane : lanes_) {
    for (const GetRef& get : lane->TakeQueued(which, why)) OnGetDone(get);
  }
}

StepList VerbsConnection::StepsOf(const std::string& owner_memory, const Region& into,
                                  const Lane& lane) {
  const unsigned index =
      static_cast<unsigned>(std::find_if(lanes_.begin(), lanes_.end(),
                                         [&](const auto& one) { return one.get() == &lane; }) -
                            lanes_.begin());
  auto name = std::make_tuple(owner_memory, into.step_name(), index);
  const auto known = steps_.find(name);
  if (known != steps_.end()) return known->second;
  if (steps_.size() >= kMostStepLists) steps_.clear();
  auto steps = std::make_shared<const std::vector<Step>>(
      std::vector<Step>{{.node = options_.node,
                         .from = owner_memory,
                         .to = into.step_name(),
                         .by = "wire",
                         .loopback = !os::InterfaceOf(GidText(lane.remote().gid)).empty(),
                         .emulated = lane.device()->emulated() || lane.remote().emulated}});
  return steps_.emplace(std::move(name), std::move(steps)).first->second;
}

void VerbsConnection::Expose(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  InHome([self = shared_from_this(), span, done = std::move(done)]() mutable {
    if (self->shut_) return done(self->why_);
    self->exposures_.Add(span, Exposures::Reach::kRegion, self, std::move(done));
  });
}

void VerbsConnection::Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  InHome([self = shared_from_this(), span, done = std::move(done)]() mutable {
    if (self->shut_) return done(self->why_);
    self->exposures_.Add(span, Exposures::Reach::kSpan, self, std::move(done));
  });
}

void VerbsConnection::EndLoan(const RemoteKey& text, Task done) {
  const Result<Key> key = DecodeKey(text);
  InHome(
      [self = shared_from_this(), id = key.ok() ? key->id : 0, done = std::move(done)]() mutable {
        if (self->finished_ || !self->exposures_.Has(id)) return done();
        if (self->shut_) return self->ending_[id].done.push_back(std::move(done));
        self->exposures_.End(id, self, [done = std::move(done)]() mutable { done(); });
      });
}

void VerbsConnection::LetGo(const RemoteKey& text) {
  const Result<Key> key = DecodeKey(text);
  if (!key.ok()) return;
  InHome([self = shared_from_this(), id = key->id] { self->NoteWithdrawn(id); });
}

void VerbsConnection::Withdraw(const RemoteKey& text, Task done) {
  const Result<Key> key = DecodeKey(text);
  InHome([self = shared_from_this(), id = key.ok() ? key->id : 0,
          done = std::move(done)]() mutable {
    if (self->finished_ || !self->exposures_.Has(id)) return done();
    Withdrawal& withdrawal = self->ending_[id];
    withdrawal.done.push_back(std::move(done));
    if (withdrawal.done.size() > 1 || self->shut_) return;  // else it ends with the connection
    // The peer lets its reads end; one that does not answer is cut off.
    self->control_.Send(FrameKind::kWithdraw, id, {});
    withdrawal.timer = self->home_.RunAfter(kWithdrawLimit, [weak = self->weak_from_this(), id] {
      if (const auto self = weak.lock()) self->OnWithdrawn(id);
    });
  });
}

bool VerbsConnection::IsWithdrawn(uint64_t exposure) const {
  return exposure < withdrawn_below_ || withdrawn_.contains(exposure);
}

// Exposures are numbered in order, and end nearly so: what is behind needs no entry of its own.
void VerbsConnection::NoteWithdrawn(uint64_t exposure) {
  if (exposure < withdrawn_below_) return;
  withdrawn_.insert(exposure);
  while (withdrawn_.erase(withdrawn_below_) > 0) ++withdrawn_below_;
}

void VerbsConnection::OnWithdraw(uint64_t exposure) {
  NoteWithdrawn(exposure);
  // Only what is with a device by now may still end, so that the peer does not wait behind others.
  EndQueued([exposure](const verbs::Get& get) { return get.exposure == exposure; }, Withdrawn());
  if (reading_.contains(exposure)) {
    to_acknowledge_.insert(exposure);
  } else {
    control_.Send(FrameKind::kWithdrawn, exposure, {});
  }
}

void VerbsConnection::OnWithdrawn(uint64_t exposure) {
  const auto found = ending_.find(exposure);
  if (found == ending_.end()) return;
  home_.CancelTimer(found->second.timer);
  auto done = std::make_shared<std::vector<Task>>(std::move(found->second.done));
  ending_.erase(found);
  exposures_.End(exposure, shared_from_this(), [done] {
    for (Task& one : *done) one();
  });
}

void VerbsConnection::Listen(ChannelId channel, MessageHandler handler) {
  listeners_.Listen(channel, std::move(handler));
}

void VerbsConnection::Ignore(ChannelId channel) { listeners_.Ignore(channel); }

Status VerbsConnection::Send(ChannelId channel, std::span<const std::byte> message) {
  if (message.size() > kMaxMessageBytes) {
    return {Code::kInvalidArgument, reasons::kBadSize, "a verbs message above its bound"};
  }
  if (closed_) return {Code::kUnavailable, reasons::kLinkDown, "the verbs connection is closed"};
  InHome([self = shared_from_this(), channel,
          text = std::string(reinterpret_cast<const char*>(message.data()), message.size())] {
    if (!self->shut_) self->control_.Send(FrameKind::kMessage, channel, text);
  });
  return OkStatus();
}

void VerbsConnection::OnFramesArrived(unsigned lane, uint64_t number) {
  if (number == kHelloNumber) return OnLaneUp(lane);
  control_.OnArrived(number);
  if (shut_ && bye_number_ != 0 && number >= bye_number_) {
    home_.Post([self = shared_from_this()] { self->Finish(); });
  }
}

void VerbsConnection::OnFrame(unsigned lane, std::span<const std::byte> bytes) {
  const std::optional<Frame> frame = DecodeFrame(bytes);
  if (!frame) {
    return Shut({Code::kUnavailable, reasons::kLinkDown,
                 "node " + peer_ + " sent what is no frame of ours"},
                true);
  }
  if (frame->kind == FrameKind::kPing) return;
  if (frame->kind == FrameKind::kHello) return OnLaneUp(lane);
  const Status taken = control_.OnFrame(*frame);
  if (!taken.ok()) Shut(taken, true);
}

void VerbsConnection::Deliver(const Frame& frame) {
  if (shut_) return;
  switch (frame.kind) {
    case FrameKind::kMessage:
      return listeners_.Deliver(frame.subject, std::as_bytes(std::span(frame.text)));
    case FrameKind::kWithdraw:
      return reader_ ? OnWithdraw(frame.subject) : void();
    case FrameKind::kWithdrawn:
      return reader_ ? void() : OnWithdrawn(frame.subject);
    case FrameKind::kRepair:
      return reader_ ? void() : OnRepair(frame);
    case FrameKind::kRepaired:
      return reader_ ? OnRepaired(frame) : void();
    case FrameKind::kBye:
      return Shut(DecodeStatus(frame.text, peer_), false);
    case FrameKind::kHello:
    case FrameKind::kPing:
      return;
  }
}

void VerbsConnection::OnClosed(UniqueFunction<void(Status)> closed) {
  InHome([self = shared_from_this(), closed = std::move(closed)]() mutable {
    if (self->finished_) return closed(self->why_);
    self->closed_callbacks_.push_back(std::move(closed));
  });
}

void VerbsConnection::Close(Status why) {
  closed_ = true;
  home_.Post([self = shared_from_this(), why = std::move(why)] { self->Shut(why, true); });
}

void VerbsConnection::Shut(Status why, bool tell_peer) {
  if (shut_) return;
  closed_ = true;
  why_ = why.WithContext("connection with node " + peer_);
  home_.CancelTimer(tick_timer_);
  const bool farewell = tell_peer && control_.HasLane();
  if (farewell) bye_number_ = control_.Send(FrameKind::kBye, 0, EncodeStatus(why));
  shut_ = true;
  if (!farewell) {
    home_.Post([self = shared_from_this()] { self->Finish(); });
    return;
  }
  home_.RunAfter(kByeLimit, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Finish();
  });
}

// After the word of farewell is out, or cannot be.
void VerbsConnection::Finish() {
  if (std::exchange(finished_, true)) return;
  const auto keep = shared_from_this();
  for (const auto& lane : lanes_) lane->Close();
  live_lanes_ = 0;
  for (const GetRef& get : std::exchange(gets_, {})) {
    GetDone done = std::exchange(get->done, nullptr);
    get->into.region.reset();
    done(why_, get->steps, get->lane);
  }
  exposures_.Clear();
  for (auto& [id, withdrawal] : std::exchange(ending_, {})) {
    home_.CancelTimer(withdrawal.timer);
    for (Task& done : withdrawal.done) done();
  }
  listeners_.Clear();
  // After what the ends above have posted.
  home_.Post([self = shared_from_this()] {
    for (auto& closed : std::exchange(self->closed_callbacks_, {})) closed(self->why_);
  });
}

void VerbsConnection::Evidence(
    UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) {
  InHome([self = shared_from_this(), done = std::move(done)]() mutable {
    std::vector<std::pair<std::string, uint64_t>> counters;
    for (const auto& lane : self->lanes_) {
      const std::string name =
          "queue pair " + std::to_string(lane->number()) + " of " + lane->port().name;
      counters.emplace_back(name + ": bytes read", lane->bytes_read());
      counters.emplace_back(name + ": completions", lane->completions());
    }
    done(std::move(counters));
  });
}

}  // namespace onecopy::verbs
