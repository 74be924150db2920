// What a connection's reading end does: takes keys, gets, lets go.
#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/link/ucx/connection.h"
#include "transport/link/ucx/connection_state.h"

namespace onecopy::ucx {
namespace {

constexpr size_t kMostCached = 256;
constexpr uint64_t kMostGetBytes = 1ULL << 30;
constexpr std::chrono::milliseconds kSayWaitingEvery{500};

}  // namespace

void UcxConnection::Get(const GetRequest& request, GetDone done) {
  if (loop_.InThread()) return StartGet(request, std::move(done));
  loop_.Post([self = shared_from_this(), request, done = std::move(done)]() mutable {
    self->StartGet(request, std::move(done));
  });
}

void UcxConnection::StartGet(const GetRequest& request, GetDone done) {
  const Result<KeyName> key = DecodeKey(*request.key);
  Status refused = key.status();
  if (key.ok()) {
    const auto found = readables_.find(key->exposure);
    const bool open = key->reader == options_.near && found != readables_.end() &&
                      CheckWithin({request.key_offset, request.into.bytes},
                                  found->second->exposing.bytes, "exposure")
                          .ok();
    if (!open) refused = NotOpen();
  }
  if (request.into.bytes > kMostGetBytes) {
    refused = {Code::kInvalidArgument, reasons::kBadSize, "a ucx get of more than 1 GiB"};
  }
  if (request.lane != GetRequest::kAnyLane && request.lane != 0) {
    refused = {Code::kInvalidArgument, reasons::kBadArgument,
               "the read names a lane that this ucx connection does not have"};
  }
  if (shut_) refused = why_;
  if (!refused.ok() || request.into.bytes == 0) {
    return loop_.Post([done = std::move(done), refused]() mutable { done(refused, nullptr, 0); });
  }
  auto operation = std::make_shared<Operation>();
  operation->channel = request.channel;
  operation->exposure = key->exposure;
  operation->offset = request.key_offset;
  operation->into = request.into;
  operation->bytes = request.into.bytes;
  operation->to = request.into.region->step_name();
  operation->done = std::move(done);
  queued_.Push(request.channel, request.into.bytes, std::move(operation));
  StartQueued();
}

void UcxConnection::StartQueued() {
  while (!shut_ && !queued_.empty() && posted_.size() < options_.gets) {
    Post(queued_.Pop());
  }
}

void UcxConnection::Post(std::shared_ptr<Operation> operation) {
  operation->readable = readables_.at(operation->exposure);
  Readable& readable = *operation->readable;
  operation->from = readable.exposing.memory;
  ++readable.gets;
  posted_.insert(operation);
  const auto memories = std::make_pair(operation->from, operation->to);
  if (emulated_.count(memories) > 0) {
    operation->into = {};
    return loop_.Post(
        [self = shared_from_this(), operation] { self->GetEnded(operation, OkStatus(), {}); });
  }
  worker_.Get(
      endpoint_,
      {readable.rkey, readable.exposing.address + operation->offset, std::move(operation->into)},
      [&](const std::string& info) {
        if (worker_.context().may_emulate()) return;
        if (RouteOf(info).method == Method::kEmulation) emulated_.insert(memories);
      },
      [self = shared_from_this(), operation](Status status, const std::string& info) {
        self->GetEnded(operation, std::move(status), info);
      });
}

void UcxConnection::GetEnded(const std::shared_ptr<Operation>& operation, Status status,
                             const std::string& info) {
  if (posted_.erase(operation) == 0) return;  // it was given up
  const bool failed = !status.ok();
  StepList steps;
  if (!failed && emulated_.count({operation->from, operation->to}) > 0) {
    const bool gpus = operation->from != "host" && operation->to != "host";
    status = {Code::kFailedPrecondition,
              operation->to == "host" ? reasons::kHostNotPinnable : reasons::kGpuNotPinnable,
              "UCX would move bytes from " + operation->from + " to " + operation->to +
                  " by software emulation only",
              std::string("use another link; see UCX_TLS and ucx_info -d for what UCX could use") +
                  (gpus ? "; UCX up to 1.22 lends buffers of GPUs within a node only where the "
                          "source's onecopyd has [cuda] allocation = \"legacy\""
                        : "")};
  } else if (!failed) {
    const Route& route = RouteOf(info);
    got_bytes_["ucx get: " + route.description] += operation->bytes;
    steps = StepsFor(route, operation->from, operation->to);
  }
  if (operation->cancelled) {
    status = {Code::kCancelled, reasons::kCancelled, "the get was cancelled"};
  }
  const uint64_t key = operation->exposure;
  const std::shared_ptr<Readable> readable = std::move(operation->readable);
  operation->done(shut_ && failed ? why_ : status, steps, 0);
  if (--readable->gets == 0 && readable->withdrawn) TellWithdrawn(key);
  // Where one get fails, the way there has failed; UCX before 1.15 does not survive another one.
  if (failed && !shut_) worker_.Fail(endpoint_, status);
  StartQueued();
  FinishIfIdle();
}

void UcxConnection::CompleteQueued(const std::function<bool(const Operation&)>& which,
                                   const Status& status) {
  for (const auto& operation :
       queued_.TakeIf([&](const std::shared_ptr<Operation>& queued) { return which(*queued); })) {
    operation->into = {};
    operation->done(status, nullptr, 0);
  }
}

void UcxConnection::CancelGets(ChannelId channel) {
  InHome([self = shared_from_this(), channel] {
    // UCX cannot take back a get: those under way end as such when they have landed.
    for (const auto& operation : self->posted_) {
      if (operation->channel == channel) operation->cancelled = true;
    }
    self->CompleteQueued([&](const Operation& operation) { return operation.channel == channel; },
                         {Code::kCancelled, reasons::kCancelled, "the get was cancelled"});
  });
}

const Route& UcxConnection::RouteOf(const std::string& info) {
  if (info.empty()) {
    static const Route kUnnamed{"not named by UCX", Method::kUnknown, {}, {}};
    return kUnnamed;
  }
  // The words of one route differ by sizes and estimates only.
  Route route = ParseRoute(info);
  const auto known = routes_.find(route.description);
  if (known != routes_.end()) return known->second;
  if (routes_.size() >= kMostCached) routes_.clear();
  std::string description = route.description;
  return routes_.emplace(std::move(description), std::move(route)).first->second;
}

StepList UcxConnection::StepsFor(const Route& route, const std::string& from,
                                 const std::string& to) {
  const std::array<std::string, 3> name = {route.description, from, to};
  const auto known = steps_.find(name);
  if (known != steps_.end()) return known->second;
  if (steps_.size() >= kMostCached) steps_.clear();
  const RouteEnds ends{options_.peer, from, options_.node, to, options_.same_machine};
  StepList steps =
      StepsOf(route, ends, [](const std::string& device) { return IsSoftwareDevice(device); });
  steps_.emplace(name, steps);
  return steps;
}

void UcxConnection::TakeExposing(const Message& message) {
  const std::optional<Exposing> exposing = DecodeExposing(message.text);
  Status refused;
  if (!exposing || !options_.reader || readables_.count(message.key) > 0) {
    refused = {Code::kInvalidArgument, reasons::kBadHandle, "the peer sent a malformed ucx key"};
  } else {
    const Result<ucp_rkey_h> rkey = worker_.Unpack(endpoint_, exposing->rkey);
    refused = rkey.status();
    if (rkey.ok()) {
      readables_[message.key] = std::make_shared<Readable>(worker_, *rkey, *exposing);
    }
  }
  Tell(MessageKind::kExposed, message.key, refused.message());
}

void UcxConnection::TakeWithdraw(uint64_t key) {
  const auto node = readables_.extract(key);
  CompleteQueued([&](const Operation& operation) { return operation.exposure == key; }, NotOpen());
  if (node.empty()) return Tell(MessageKind::kWithdrawn, key);
  const std::shared_ptr<Readable>& readable = node.mapped();
  readable->withdrawn = true;
  ++withdrawn_;
  if (readable->gets == 0) return TellWithdrawn(key);
  if (waiting_timer_ == 0) SayWaiting();
}

void UcxConnection::TellWithdrawn(uint64_t key) {
  --withdrawn_;
  if (!shut_) Tell(MessageKind::kWithdrawn, key);
}

void UcxConnection::SayWaiting() {
  waiting_timer_ = 0;
  if (shut_ || withdrawn_ == 0) return;
  Tell(MessageKind::kPong);
  waiting_timer_ =
      loop_.RunAfter(kSayWaitingEvery, [self = shared_from_this()] { self->SayWaiting(); });
}

// UCX's key goes with the last get that uses it.
void UcxConnection::LetGo(const RemoteKey& text) {
  const Result<KeyName> key = DecodeKey(text);
  if (!key.ok()) return;
  InHome([self = shared_from_this(), id = key->exposure] { self->readables_.erase(id); });
}

}  // namespace onecopy::ucx
