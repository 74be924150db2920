#include "transport/link/verbs/connection.h"

#include <algorithm>
#include <utility>

#include "transport/core/reasons.h"
#include "transport/link/verbs/wire.h"
#include "transport/os/host_port.h"

namespace onecopy::verbs {
namespace {

constexpr uint64_t kHelloNumber = UINT64_MAX;  // of no frame that is numbered
constexpr std::chrono::seconds kTick{2};       // a quiet lane is asked for its life that often
constexpr std::chrono::seconds kHelloLimit{5};
constexpr std::chrono::seconds kWithdrawLimit{2};
constexpr std::chrono::milliseconds kByeLimit{500};
constexpr size_t kMostEarly = 4096;
constexpr size_t kMostStepLists = 64;

std::string EncodeStatus(const Status& status) {
  Writer out;
  out.Put(static_cast<uint8_t>(status.code()));
  out.PutText(status.reason().substr(0, 64));
  out.PutText(status.message().substr(0, 255));
  return out.Take();
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
                                 std::shared_ptr<MemoryTable> memory, SlowCalls slow)
    : options_(options),
      peer_(std::move(peer)),
      progress_(progress),
      home_(progress.loop()),
      memory_(std::move(memory)),
      exposures_(peer_, home_, *memory_, std::move(slow), lanes_) {}

void VerbsConnection::InHome(Task task) {
  if (home_.InThread()) return task();
  home_.Post(std::move(task));
}

std::unique_ptr<Lane> VerbsConnection::MakeLane(const std::shared_ptr<Device>& device,
                                                size_t port) {
  return std::make_unique<Lane>(static_cast<unsigned>(lanes_.size()), progress_, device, port,
                                options_, *this);
}

Result<Offer> VerbsConnection::MakeOffer(const std::vector<std::shared_ptr<Device>>& devices) {
  reader_ = true;
  Status failure(Code::kUnavailable, reasons::kLinkDown, "no port of this node is active");
  // Round after round over the ports, so that neighbours in the list are on different ones.
  for (uint32_t pair = 0; pair < options_.queue_pairs; ++pair) {
    for (const std::shared_ptr<Device>& device : devices) {
      for (size_t port = 0; port < device->port_count() && lanes_.size() < kMaxLanes; ++port) {
        std::unique_ptr<Lane> lane = MakeLane(device, port);
        const Status created = lane->Create(true);
        if (created.ok()) {
          lanes_.push_back(std::move(lane));
        } else {
          failure = created;
        }
      }
    }
  }
  if (lanes_.empty()) return failure;
  Offer offer;
  for (const auto& lane : lanes_) offer.lanes.push_back(lane->address());
  return offer;
}

Result<Answer> VerbsConnection::MakeAnswer(const Offer& offer,
                                           const std::vector<std::shared_ptr<Device>>& devices) {
  Answer answer;
  Status failure(Code::kUnavailable, reasons::kNicUnreachable,
                 "no port of this node is on a fabric of node " + peer_ + "'s");
  struct Candidate {
    std::shared_ptr<Device> device;
    size_t port = 0;
    size_t lanes = 0;  // given to it so far
  };
  std::vector<Candidate> candidates;
  for (const std::shared_ptr<Device>& device : devices) {
    for (size_t port = 0; port < device->port_count(); ++port) {
      if (device->port(port).viability.viable) candidates.push_back({device, port});
    }
  }
  for (const QueuePairAddress& theirs : offer.lanes) {
    AnsweredLane& mine = answer.lanes.emplace_back();
    // The port of the same name is on the same rail, where fabrics have rails; else the one with
    // the fewest lanes.
    Candidate* best = nullptr;
    for (Candidate& candidate : candidates) {
      const Port port = candidate.device->port(candidate.port);
      if (port.Fabric() != theirs.fabric || port.ethernet != theirs.ethernet) continue;
      if (port.name == theirs.nic) {
        best = &candidate;
        break;
      }
      if (best == nullptr || candidate.lanes < best->lanes) best = &candidate;
    }
    if (best == nullptr) {
      // Lanes are numbered alike at both ends: one that is missing here keeps its place.
      lanes_.push_back(MakeLane(devices.front(), 0));
      lanes_.back()->Close();
      continue;
    }
    Lane& lane = *lanes_.emplace_back(MakeLane(best->device, best->port));
    Status made = lane.Create(false);
    if (made.ok()) made = lane.Connect(theirs);
    if (!made.ok()) {
      lane.Close();
      failure = std::move(made);
      continue;
    }
    ++best->lanes;
    mine.present = true;
    mine.address = lane.address();
  }
  if (std::none_of(answer.lanes.begin(), answer.lanes.end(),
                   [](const AnsweredLane& lane) { return lane.present; })) {
    return failure;
  }
  BeginTicking();
  LimitConnecting();
  return answer;
}

void VerbsConnection::LimitConnecting() {
  home_.RunAfter(kHelloLimit, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->shut_) return;
    for (const auto& lane : self->lanes_) {
      if (lane->state() != Lane::State::kConnecting) continue;
      lane->Fail({Code::kUnavailable, reasons::kLinkDown,
                  "the lane between " + lane->port().name + " and " + lane->remote().nic +
                      " of node " + self->peer_ + " did not come up in time"});
    }
  });
}

void VerbsConnection::Establish(const Answer& answer, UniqueFunction<void(Status)> done) {
  establishing_ = std::move(done);
  if (answer.lanes.size() != lanes_.size()) {
    last_failure_ = {Code::kInvalidArgument, reasons::kBadArgument,
                     "a verbs answer that does not fit its offer"};
    for (const auto& lane : lanes_) lane->Close();
    return ResolveEstablishing();
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (!answer.lanes[i].present) {
      lanes_[i]->Close();
      continue;
    }
    const Status connected = lanes_[i]->Connect(answer.lanes[i].address);
    if (!connected.ok()) {
      last_failure_ = connected;
      lanes_[i]->Close();
      continue;
    }
    lanes_[i]->Send(Encode(Frame{FrameKind::kHello, 0, 0, {}}), kHelloNumber);
  }
  for (const auto& lane : lanes_) {
    lane_infos_.push_back({lane->port().name, GidText(lane->remote().gid), lane->remote().nic});
  }
  BeginTicking();
  LimitConnecting();
  ResolveEstablishing();
}

void VerbsConnection::ResolveEstablishing() {
  if (!establishing_) return;
  bool any = false;
  for (const auto& lane : lanes_) {
    if (lane->state() == Lane::State::kConnecting) return;
    any |= lane->state() == Lane::State::kLive;
  }
  if (any) return std::exchange(establishing_, nullptr)(OkStatus());
  Status why = last_failure_.ok() ? Status(Code::kUnavailable, reasons::kNicUnreachable,
                                           "no port of node " + peer_ + " is on a fabric of ours")
                                  : last_failure_;
  Shut(why, false);
  std::exchange(establishing_, nullptr)(std::move(why));
}

void VerbsConnection::BeginTicking() {
  tick_timer_ = home_.RunAfter(kTick, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Tick();
  });
}

// The passive side of a read learns nothing from it, and a lane without work nothing at all.
void VerbsConnection::Tick() {
  if (shut_) return;
  for (const auto& lane : lanes_) {
    if (lane->state() == Lane::State::kLive && !lane->TakeActivity()) {
      lane->Send(Encode(Frame{FrameKind::kPing, 0, 0, {}}), 0);
    }
  }
  BeginTicking();
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
    if (known->devices[i].region) here = known->devices[i].how;
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
  if (IsWithdrawn(key->id)) {
    return {Code::kPermissionDenied, reasons::kAccessDenied, "the right to read was withdrawn"};
  }
  if (request.lane != GetRequest::kAnyLane && static_cast<size_t>(request.lane) >= lanes_.size()) {
    return {Code::kInvalidArgument, reasons::kBadArgument, "a get on a lane that is none"};
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
    const DeviceMemory* on = known->On(lane.device().get());
    if (on == nullptr) continue;
    const auto rate = static_cast<double>(std::max<uint64_t>(lane.port().bytes_per_second, 1));
    const double wait = static_cast<double>(lane.load_bytes() + get->into.bytes) / rate;
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

void VerbsConnection::OnGetDone(const GetRef& get) {
  EndGet(get, get->cancelled
                  ? Status(Code::kCancelled, reasons::kCancelled, "the get was cancelled")
                  : OkStatus());
}

void VerbsConnection::EndGet(const GetRef& get, const Status& status) {
  if (gets_.erase(get) == 0) return;
  GetDone done = std::exchange(get->done, nullptr);
  get->into.region.reset();
  const uint64_t exposure = get->exposure;
  done(status, get->steps, get->lane);
  const auto reading = reading_.find(exposure);
  if (reading == reading_.end() || --reading->second > 0) return;
  reading_.erase(reading);
  if (to_acknowledge_.erase(exposure) > 0) SendFrame(FrameKind::kWithdrawn, exposure, {});
}

void VerbsConnection::CancelGets(ChannelId channel) {
  InHome([self = shared_from_this(), channel] {
    for (const auto& lane : self->lanes_) {
      for (const GetRef& get : lane->TakeQueued(channel)) self->OnGetDone(get);
    }
  });
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
    self->exposures_.Add(span, self, std::move(done));
  });
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
    self->SendFrame(FrameKind::kWithdraw, id, {});
    withdrawal.timer = self->home_.RunAfter(kWithdrawLimit, [weak = self->weak_from_this(), id] {
      if (const auto self = weak.lock()) self->OnWithdrawn(id);
    });
  });
}

bool VerbsConnection::IsWithdrawn(uint64_t exposure) const {
  return exposure < withdrawn_below_ || withdrawn_.contains(exposure);
}

void VerbsConnection::OnWithdraw(uint64_t exposure) {
  withdrawn_.insert(exposure);
  // Exposures are numbered in order, and end nearly so: what is behind needs no entry of its own.
  while (withdrawn_.erase(withdrawn_below_) > 0) ++withdrawn_below_;
  if (!reading_.contains(exposure)) return SendFrame(FrameKind::kWithdrawn, exposure, {});
  to_acknowledge_.insert(exposure);
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
  auto shared = std::make_shared<MessageHandler>(std::move(handler));
  const std::lock_guard lock(handlers_mutex_);
  handlers_[channel].swap(shared);
}

void VerbsConnection::Ignore(ChannelId channel) {
  std::shared_ptr<MessageHandler> ended;  // destroyed outside the lock, or by a call under way
  const std::lock_guard lock(handlers_mutex_);
  const auto found = handlers_.find(channel);
  if (found == handlers_.end()) return;
  ended = std::move(found->second);
  handlers_.erase(found);
}

Status VerbsConnection::Send(ChannelId channel, std::span<const std::byte> message) {
  if (message.size() > kMaxMessageBytes) {
    return {Code::kInvalidArgument, reasons::kBadSize, "a verbs message above its bound"};
  }
  if (closed_) return {Code::kUnavailable, reasons::kLinkDown, "the verbs connection is closed"};
  InHome([self = shared_from_this(), channel,
          text = std::string(reinterpret_cast<const char*>(message.data()), message.size())] {
    if (!self->shut_) self->SendFrame(FrameKind::kMessage, channel, text);
  });
  return OkStatus();
}

Lane* VerbsConnection::ControlLane() {
  if (control_ >= 0 && lanes_[static_cast<size_t>(control_)]->usable() &&
      lanes_[static_cast<size_t>(control_)]->state() != Lane::State::kDead) {
    return lanes_[static_cast<size_t>(control_)].get();
  }
  control_ = -1;
  for (const Lane::State wanted : {Lane::State::kLive, Lane::State::kConnecting}) {
    for (size_t i = 0; control_ < 0 && i < lanes_.size(); ++i) {
      if (lanes_[i]->usable() && lanes_[i]->state() == wanted) control_ = static_cast<int>(i);
    }
  }
  return control_ < 0 ? nullptr : lanes_[static_cast<size_t>(control_)].get();
}

void VerbsConnection::SendFrame(FrameKind kind, uint64_t subject, std::string_view text) {
  const uint64_t number = next_number_++;
  unacknowledged_.push_back({number, Encode(Frame{kind, number, subject, text})});
  // Without a lane the connection is about to end.
  if (Lane* lane = ControlLane()) lane->Send(unacknowledged_.back().bytes, number);
}

void VerbsConnection::OnFramesArrived(unsigned lane, uint64_t number) {
  if (number == kHelloNumber) {
    if (lanes_[lane]->state() != Lane::State::kConnecting) return;
    lanes_[lane]->SetLive();
    ++live_lanes_;
    return ResolveEstablishing();
  }
  while (!unacknowledged_.empty() && unacknowledged_.front().number <= number) {
    unacknowledged_.pop_front();
  }
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
  if (frame->kind == FrameKind::kHello) {
    if (lanes_[lane]->state() != Lane::State::kConnecting) return;
    lanes_[lane]->SetLive();
    ++live_lanes_;
    return;
  }
  if (frame->number < next_expected_) return;  // sent twice, as its lane died
  if (frame->number > next_expected_) {
    if (early_.size() >= kMostEarly) {
      return Shut({Code::kUnavailable, reasons::kLinkDown, "frames of node " + peer_ + " are lost"},
                  true);
    }
    early_.emplace(frame->number,
                   std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return;
  }
  ++next_expected_;
  Deliver(*frame);
  while (!shut_ && !early_.empty() && early_.begin()->first == next_expected_) {
    const std::string next = std::move(early_.begin()->second);
    early_.erase(early_.begin());
    ++next_expected_;
    Deliver(*DecodeFrame(std::as_bytes(std::span(next))));
  }
}

void VerbsConnection::Deliver(const Frame& frame) {
  if (shut_) return;
  switch (frame.kind) {
    case FrameKind::kMessage: {
      std::shared_ptr<MessageHandler> handler;  // it may end its own listening
      {
        const std::lock_guard lock(handlers_mutex_);
        const auto found = handlers_.find(frame.subject);
        if (found == handlers_.end()) return;
        handler = found->second;
      }
      return (*handler)(std::as_bytes(std::span(frame.text)));
    }
    case FrameKind::kWithdraw:
      return reader_ ? OnWithdraw(frame.subject) : void();
    case FrameKind::kWithdrawn:
      return reader_ ? void() : OnWithdrawn(frame.subject);
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

void VerbsConnection::OnPortDown(const Device* device, uint8_t port, const Status& why) {
  home_.Post([self = shared_from_this(), device, port, why] {
    for (const auto& lane : self->lanes_) {
      if (lane->device().get() != device || (port != 0 && lane->port().number != port)) continue;
      lane->Fail(why);
    }
  });
}

void VerbsConnection::OnLaneFailed(unsigned index, const Status& why, const GetRef& culprit) {
  Lane& lane = *lanes_[index];
  const bool was_control = control_ == static_cast<int>(index);
  last_failure_ = why;
  const std::vector<GetRef> unfinished = lane.Close();
  unsigned live = 0;
  for (const auto& one : lanes_) live += one->state() == Lane::State::kLive ? 1 : 0;
  live_lanes_ = live;
  if (finished_) return;
  for (const GetRef& get : unfinished) {
    if (get == culprit) {
      EndGet(get, {Code::kPermissionDenied, reasons::kAccessDenied, why.message()});
      continue;
    }
    if (get->cancelled || shut_) {
      OnGetDone(get);
      continue;
    }
    const Status moved = live > 0 ? Assign(get) : why;
    if (!moved.ok()) EndGet(get, moved);
  }
  if (was_control && !shut_) {
    if (Lane* next = ControlLane()) {
      for (const Numbered& frame : unacknowledged_) next->Send(frame.bytes, frame.number);
    }
  }
  ResolveEstablishing();
  const bool any = std::any_of(lanes_.begin(), lanes_.end(),
                               [](const auto& one) { return one->state() != Lane::State::kDead; });
  if (any) return;
  if (shut_) return Finish();
  Shut(why, false);
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
  Lane* lane = tell_peer ? ControlLane() : nullptr;
  if (lane != nullptr) {
    bye_number_ = next_number_;
    SendFrame(FrameKind::kBye, 0, EncodeStatus(why));
  }
  shut_ = true;
  if (lane == nullptr) {
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
  {
    const std::lock_guard lock(handlers_mutex_);
    handlers_.clear();
  }
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
