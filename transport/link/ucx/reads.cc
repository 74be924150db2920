#include "transport/link/ucx/reads.h"

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/link/ucx/resources.h"

namespace onecopy::ucx {
namespace {

constexpr size_t kMaxCached = 256;
constexpr uint64_t kMaxGetBytes = 1ULL << 30;
constexpr std::chrono::milliseconds kSayWaitingEvery{500};

Status NotOpen() {
  return {Code::kPermissionDenied, reasons::kAccessDenied,
          "this key does not open that range for reading"};
}

}  // namespace

// What may be got.
struct Reads::Readable {
  Readable(Worker& worker, ucp_rkey_h key, ExportInfo what)
      : worker(worker), rkey(key), info(std::move(what)) {}
  ~Readable() { worker.Destroy(rkey); }
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;

  Worker& worker;
  const ucp_rkey_h rkey;
  const ExportInfo info;
  unsigned gets = 0;  // under way
  bool revoked = false;
};

// One get.
struct Reads::Operation {
  ChannelId channel = 0;
  uint64_t exported = 0;
  uint64_t offset = 0;
  Span into;  // until it is posted
  uint64_t bytes = 0;
  std::string to;  // memories, for steps
  std::string from;
  std::shared_ptr<Readable> readable;  // once it is posted
  bool cancelled = false;
  Connection::GetDone done;
};

Reads::Reads(Ends ends, EndId near, unsigned gets, const Home& home, Worker& worker,
             Dialogue& dialogue, std::function<void()> idle)
    : ends_(std::move(ends)),
      near_(near),
      max_gets_(gets),
      home_(home),
      worker_(worker),
      dialogue_(dialogue),
      idle_(std::move(idle)) {}

Reads::~Reads() = default;

Status Reads::Check(const GetRequest& request, const Result<KeyName>& key) const {
  if (!stopped_.ok()) return stopped_;
  if (request.lane != GetRequest::kAnyLane && request.lane != 0) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "the read names a lane that this ucx connection does not have"};
  }
  if (request.into.bytes > kMaxGetBytes) {
    return {Code::kInvalidArgument, reasons::kBadSize, "a ucx get of more than 1 GiB"};
  }
  ONECOPY_RETURN_IF_ERROR(key.status());
  const auto found = readables_.find(key->exported);
  const bool open =
      key->reader == near_ && found != readables_.end() &&
      CheckWithin({request.key_offset, request.into.bytes}, found->second->info.bytes, "export")
          .ok();
  return open ? OkStatus() : NotOpen();
}

void Reads::Start(const GetRequest& request, Connection::GetDone done) {
  const Result<KeyName> key = DecodeKey(*request.key);
  const Status refused = Check(request, key);
  if (!refused.ok() || request.into.bytes == 0) {
    return home_.loop().Post(
        [done = std::move(done), refused]() mutable { done(refused, nullptr, 0); });
  }
  auto operation = std::make_shared<Operation>();
  operation->channel = request.channel;
  operation->exported = key->exported;
  operation->offset = request.key_offset;
  operation->into = request.into;
  operation->bytes = request.into.bytes;
  operation->to = request.into.region->step_name();
  operation->done = std::move(done);
  if (queued_.empty() && posted_.size() < max_gets_) return Post(operation);
  queued_.Push(request.flow, request.channel, request.into.bytes + kGetCostBytes,
               std::move(operation));
}

void Reads::StartQueued() {
  while (stopped_.ok() && !queued_.empty() && posted_.size() < max_gets_) {
    Post(queued_.Pop());
  }
}

void Reads::Post(const OperationRef& operation) {
  operation->readable = readables_.at(operation->exported);
  Readable& readable = *operation->readable;
  operation->from = readable.info.memory;
  ++readable.gets;
  posted_.insert(operation);
  const auto memories = std::make_pair(operation->from, operation->to);
  if (emulated_.count(memories) > 0) {
    operation->into = {};
    return home_.loop().Post(
        [this, keep = home_.Keep(), operation] { OnEnded(operation, OkStatus(), {}); });
  }
  worker_.Get(
      dialogue_.endpoint(),
      {readable.rkey, readable.info.address + operation->offset, std::move(operation->into)},
      [&](const std::string& info) {
        if (worker_.context().may_emulate()) return;
        if (ProtocolOf(info).method == Method::kEmulation) emulated_.insert(memories);
      },
      [this, keep = home_.Keep(), operation](Status status, const std::string& info) {
        OnEnded(operation, std::move(status), info);
      });
}

void Reads::OnEnded(const OperationRef& operation, Status status, const std::string& info) {
  if (posted_.erase(operation) == 0) return;  // it was given up
  ended_.fetch_add(1, std::memory_order_relaxed);
  const bool failed = !status.ok();
  StepList steps;
  if (!failed && emulated_.count({operation->from, operation->to}) > 0) {
    const bool gpus = operation->from != "host" && operation->to != "host";
    status = {
        Code::kFailedPrecondition,
        operation->to == "host" ? reasons::kHostNotPinnable : reasons::kGpuNotPinnable,
        "UCX would move bytes from " + operation->from + " to " + operation->to +
            " by software emulation only",
        std::string(
            "use another link, or another transport of UCX (UCX_TLS; ucx_info -d lists them)") +
            (gpus ? "; UCX up to 1.22 can lend GPU buffers within a node only if the source's "
                    "onecopyd has [cuda] allocation = \"legacy\""
                  : "")};
  } else if (!failed) {
    const Protocol& protocol = ProtocolOf(info);
    got_bytes_["ucx get: " + protocol.description] += operation->bytes;
    steps = StepsFor(protocol, operation->from, operation->to);
  }
  if (operation->cancelled) {
    status = {Code::kCancelled, reasons::kCancelled, "the get was cancelled"};
  }
  const uint64_t key = operation->exported;
  const std::shared_ptr<Readable> readable = std::move(operation->readable);
  operation->done(!stopped_.ok() && failed ? stopped_ : status, steps, 0);
  if (--readable->gets == 0 && readable->revoked) TellRevoked(key);
  // Where one get fails, the way there has failed; UCX before 1.15 does not survive another one.
  if (failed && stopped_.ok()) worker_.Fail(dialogue_.endpoint(), status);
  StartQueued();
  if (!stopped_.ok() && posted_.empty()) idle_();
}

void Reads::EndQueued(const std::function<bool(const Operation&)>& which, const Status& status) {
  for (const auto& operation :
       queued_.TakeIf([&](const OperationRef& queued) { return which(*queued); })) {
    operation->into = {};
    operation->done(status, nullptr, 0);
  }
}

void Reads::Cancel(ChannelId channel) {
  // UCX cannot take back a get: those under way end as such when they have landed.
  for (const OperationRef& operation : posted_) {
    if (operation->channel == channel) operation->cancelled = true;
  }
  EndQueued([&](const Operation& operation) { return operation.channel == channel; },
            {Code::kCancelled, reasons::kCancelled, "the get was cancelled"});
}

const Protocol& Reads::ProtocolOf(const std::string& info) {
  if (info.empty()) {
    static const Protocol kUnnamed{"not named by UCX", Method::kUnknown, {}, {}};
    return kUnnamed;
  }
  // The words of one protocol differ by sizes and estimates only.
  Protocol protocol = ParseProtocol(info);
  const auto known = protocols_.find(protocol.description);
  if (known != protocols_.end()) return known->second;
  if (protocols_.size() >= kMaxCached) protocols_.clear();
  std::string description = protocol.description;
  return protocols_.emplace(std::move(description), std::move(protocol)).first->second;
}

StepList Reads::StepsFor(const Protocol& protocol, const std::string& from, const std::string& to) {
  const std::array<std::string, 3> name = {protocol.description, from, to};
  const auto known = steps_.find(name);
  if (known != steps_.end()) return known->second;
  if (steps_.size() >= kMaxCached) steps_.clear();
  const GetEnds ends{ends_.peer, from, ends_.node, to, ends_.same_machine};
  StepList steps =
      StepsOf(protocol, ends, [](const std::string& device) { return IsSoftwareDevice(device); });
  steps_.emplace(name, steps);
  return steps;
}

void Reads::OnExport(const Message& message) {
  const std::optional<ExportInfo> info = DecodeExportInfo(message.text);
  Status refused;
  if (!info || readables_.count(message.key) > 0) {
    refused = {Code::kInvalidArgument, reasons::kBadHandle, "the peer sent a malformed ucx key"};
  } else {
    const Result<ucp_rkey_h> rkey = worker_.Unpack(dialogue_.endpoint(), info->rkey);
    refused = rkey.status();
    if (rkey.ok()) {
      readables_[message.key] = std::make_shared<Readable>(worker_, *rkey, *info);
    }
  }
  dialogue_.Tell(MessageKind::kExported, message.key, refused.message());
}

void Reads::OnRevoke(uint64_t key) {
  const auto node = readables_.extract(key);
  EndQueued([&](const Operation& operation) { return operation.exported == key; }, NotOpen());
  if (node.empty()) return dialogue_.Tell(MessageKind::kRevoked, key);
  const std::shared_ptr<Readable>& readable = node.mapped();
  readable->revoked = true;
  ++revoked_;
  if (readable->gets == 0) return TellRevoked(key);
  if (!waiting_said_) SayWaiting();
}

void Reads::TellRevoked(uint64_t key) {
  --revoked_;
  if (stopped_.ok()) dialogue_.Tell(MessageKind::kRevoked, key);
}

void Reads::SayWaiting() {
  waiting_said_ = stopped_.ok() && revoked_ > 0;
  if (!waiting_said_) return;
  dialogue_.Tell(MessageKind::kPong);
  home_.RunAfter(kSayWaitingEvery, [this] { SayWaiting(); });
}

void Reads::Stop(const Status& why) {
  stopped_ = why;
  EndQueued([](const Operation&) { return true; }, why);
}

void Reads::EndAll() {
  for (const OperationRef& operation : std::exchange(posted_, {})) {
    operation->readable.reset();
    operation->done(stopped_, nullptr, 0);
  }
  readables_.clear();
}

}  // namespace onecopy::ucx
