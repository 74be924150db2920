#include "transport/link/ucx/worker.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::ucx {
namespace {

constexpr unsigned kMessageId = 0;
// Looking for more after the last piece of work, before a thread sleeps.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kProgressPerTurn = 32;
constexpr std::chrono::seconds kStopLimit{2};
constexpr int kQuietTurns = 100;
constexpr size_t kMaxInfo = 512;

}  // namespace

// A message under way; UCX reads it until it has been sent.
struct Worker::Sending {
  Worker* worker = nullptr;
  std::string bytes;
};

struct Worker::Getting {
  Worker* worker = nullptr;
  GetOperation operation;
  std::shared_ptr<const MappedMemory> memory;
  std::string info;
  GetDone done;
  void* request = nullptr;
  ucs_status_t status = UCS_OK;
};

Result<std::unique_ptr<Worker>> Worker::Create(std::shared_ptr<Context> context,
                                               os::LoopThread& thread) {
  std::unique_ptr<Worker> worker(new Worker(std::move(context), thread.loop()));
  Status started;
  thread.RunSync([&] { started = worker->Start(); });
  ONECOPY_RETURN_IF_ERROR(started);
  return worker;
}

Worker::Worker(std::shared_ptr<Context> context, os::EventLoop& loop)
    : context_(std::move(context)), api_(context_->api()), loop_(loop) {}

Worker::~Worker() = default;

Status Worker::Start() {
  auto failed = [&](ucs_status_t status) {
    if (worker_ != nullptr) api_.WorkerDestroy(std::exchange(worker_, nullptr));
    return context_->Failure(status, "making a UCX worker", Code::kFailedPrecondition,
                             reasons::kNoRdmaDevice);
  };
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucs_status_t status = api_.WorkerCreate(context_->handle(), &params, &worker_);
  if (status != UCS_OK) return failed(status);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = OnMessage;
  handler.arg = this;
  status = api_.WorkerSetAmHandler(worker_, &handler);
  if (status != UCS_OK) return failed(status);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status = api_.WorkerGetAddress(worker_, &address, &bytes);
  if (status != UCS_OK) return failed(status);
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  api_.WorkerReleaseAddress(worker_, address);
  status = api_.WorkerGetEfd(worker_, &events_);
  if (status != UCS_OK) return failed(status);
  Status watching = loop_.Watch(events_, EPOLLIN, [this](uint32_t) { loop_.KickPoller(); });
  if (!watching.ok()) {
    api_.WorkerDestroy(std::exchange(worker_, nullptr));
    return watching;
  }
  loop_.SetPoller([this] { return Turn(); }, os::Clock::duration(0), os::Clock::duration(0));
  loop_.KickPoller();
  return OkStatus();
}

bool Worker::Turn() {
  if (worker_ == nullptr) return false;
  bool worked = false;
  for (int i = 0; i < kProgressPerTurn; ++i) {
    if (api_.WorkerProgress(worker_) == 0) break;
    worked = true;
  }
  worked |= Drain();
  const auto now = os::Clock::now();
  if (worked) last_work_ = now;
  if (now - last_work_ < kSpin) return true;
  // An error of arming is as good as "busy": the worker is then polled.
  if (api_.WorkerArm(worker_) != UCS_OK) return true;
  // A device tells of what comes after it was armed. What came just before is found by looking
  // (Soft-RoCE says nothing of it, and the specification does not ask for more).
  if (api_.WorkerProgress(worker_) == 0 && !Drain()) return false;
  last_work_ = os::Clock::now();
  return true;
}

bool Worker::Drain() {
  bool any = false;
  for (auto& [handle, status] : std::exchange(failed_, {})) {
    any = true;
    for (const auto& [address, endpoint] : endpoints_) {
      if (endpoint->handle != handle) continue;
      const EndpointRef keep = endpoint;
      Fail(keep,
           context_->Failure(status, "UCX lost the peer", Code::kUnavailable, reasons::kLinkDown));
      break;
    }
  }
  while (!arrived_.empty()) {
    any = true;
    Message message = std::move(arrived_.front());
    arrived_.pop_front();
    const auto found = ends_.find(message.to);
    if (found == ends_.end()) continue;
    const std::shared_ptr<End> keep = found->second;
    keep->Arrived(std::move(message));
  }
  for (Getting* getting : std::exchange(got_, {})) {
    any = true;
    Finish(getting);
  }
  any |= ReapClosing();
  return any;
}

void Worker::FailIfLost(const FarWorker& far) {
  const auto known = endpoints_.find(far.address);
  if (known == endpoints_.end()) return;
  const EndpointRef endpoint = known->second;
  const auto& pairs = endpoint->pairs;
  const bool lost = std::any_of(pairs.begin(), pairs.end(), [&](const Endpoint::Pair& ends) {
    return std::find(far.lost.begin(), far.lost.end(), ends.near) != far.lost.end();
  });
  if (!lost) return;
  Fail(endpoint,
       {Code::kUnavailable, reasons::kLinkDown, "node " + far.peer + " lost its UCX connection"});
}

Result<EndpointRef> Worker::Connect(const FarWorker& far) {
  FailIfLost(far);
  const auto known = endpoints_.find(far.address);
  if (known != endpoints_.end()) {
    if (known->second->reports_failure == far.reports_failure) return known->second;
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "the peer's ucx offers disagree on whether other machines can reach it");
  }
  auto endpoint = std::make_shared<Endpoint>();
  endpoint->reports_failure = far.reports_failure;
  endpoint->peer = far.peer;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(far.address.data());
  params.err_mode = far.reports_failure ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = OnFailure;
  params.err_handler.arg = this;
  const ucs_status_t status = api_.EpCreate(worker_, &params, &endpoint->handle);
  if (status != UCS_OK) {
    return context_->Failure(status, "connecting through UCX", Code::kUnavailable,
                             reasons::kNicUnreachable);
  }
  endpoints_[far.address] = endpoint;
  loop_.KickPoller();
  return endpoint;
}

std::vector<EndId> Worker::LostEnds(const std::string& peer) const {
  const auto found = lost_.find(peer);
  if (found == lost_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void Worker::Attach(Endpoint& endpoint, Endpoint::Pair ends, std::shared_ptr<End> end) {
  endpoint.pairs.push_back(ends);
  if (endpoint.pairs.size() > kMaxLostEnds) endpoint.pairs.pop_front();
  ends_[ends.near] = std::move(end);
}

void Worker::Send(const EndpointRef& endpoint, const Message& message) {
  if (!endpoint->failure.ok()) return;
  auto sending = std::make_unique<Sending>(Sending{this, Encode(message)});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = OnSent;
  param.user_data = sending.get();
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  // No header of UCX's: with one beside a body, 1.13 can write past an array on its stack.
  void* request = api_.AmSend(endpoint->handle, kMessageId, nullptr, 0, sending->bytes.data(),
                              sending->bytes.size(), &param);
  loop_.KickPoller();
  if (UCS_PTR_IS_PTR(request)) {
    Sending* const raw = sending.get();
    sending_.emplace(raw, std::move(sending));  // until OnSent
  } else if (UCS_PTR_IS_ERR(request)) {
    failed_.emplace_back(endpoint->handle, UCS_PTR_STATUS(request));
  }
}

void Worker::OnSent(void* request, ucs_status_t, void* data) {
  // A failure is reported of the endpoint, too.
  auto* const sending = static_cast<Sending*>(data);
  Worker& self = *sending->worker;
  self.api_.RequestFree(request);
  self.sending_.erase(sending);
}

void Worker::Get(const EndpointRef& endpoint, GetOperation operation, const Told& told,
                 GetDone done) {
  auto getting = std::make_unique<Getting>();
  getting->worker = this;
  getting->operation = std::move(operation);
  getting->done = std::move(done);
  const Span& into = getting->operation.into;
  getting->memory = context_->Find(*into.region);
  Getting* const raw = getting.get();
  getting_.emplace(raw, std::move(getting));
  if (raw->memory == nullptr || !endpoint->failure.ok()) {
    raw->status = raw->memory == nullptr ? UCS_ERR_INVALID_PARAM : UCS_ERR_CANCELED;
    got_.push_back(raw);
    return loop_.KickPoller();
  }
  if (raw->memory->type == UCS_MEMORY_TYPE_CUDA) {
    if (!context_->gpus().UseFor(into.region->address()).ok()) {
      raw->status = UCS_ERR_NO_DEVICE;
      got_.push_back(raw);
      return loop_.KickPoller();
    }
  } else {
    context_->gpus().UseAny();
  }
  ucp_request_param_t param{};
  // A request even where it is done at once, since only a request can be asked for its protocol.
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH |
                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.send = OnGot;
  param.user_data = raw;
  param.memory_type = raw->memory->type;
  param.memh = raw->memory->handle;
  void* request = api_.Get(endpoint->handle, into.address(), into.bytes, raw->operation.address,
                           raw->operation.rkey, &param);
  loop_.KickPoller();
  if (UCS_PTR_IS_PTR(request)) {
    raw->request = request;
    std::array<char, kMaxInfo> info{};
    ucp_request_attr_t attributes{};
    attributes.field_mask =
        UCP_REQUEST_ATTR_FIELD_INFO_STRING | UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE;
    attributes.debug_string = info.data();
    attributes.debug_string_size = info.size();
    if (context_->names_protocols() && api_.RequestQuery(request, &attributes) == UCS_OK) {
      info.back() = 0;
      raw->info = info.data();
    }
  } else {
    raw->status = UCS_PTR_STATUS(request);
    got_.push_back(raw);
  }
  told(raw->info);
}

void Worker::OnGot(void*, ucs_status_t status, void* data) {
  auto* const getting = static_cast<Getting*>(data);
  getting->status = status;
  getting->worker->got_.push_back(getting);
}

void Worker::Finish(Getting* raw) {
  const auto node = getting_.extract(raw);
  Getting& getting = *node.mapped();
  if (getting.request != nullptr) api_.RequestFree(getting.request);
  getting.operation.into = {};
  Status status;
  if (getting.status != UCS_OK) {
    status = context_->Failure(getting.status, "a get through UCX", Code::kUnavailable,
                               reasons::kLinkDown);
  }
  getting.done(std::move(status), getting.info);
}

ucs_status_t Worker::OnMessage(void* self, const void*, size_t, void* data, size_t bytes,
                               const ucp_am_recv_param_t* param) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;  // none of ours
  auto message = DecodeMessage({static_cast<const char*>(data), bytes});
  if (message) static_cast<Worker*>(self)->arrived_.push_back(std::move(*message));
  return UCS_OK;
}

void Worker::OnFailure(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  static_cast<Worker*>(self)->failed_.emplace_back(endpoint, status);
}

Result<ucp_rkey_h> Worker::Unpack(const EndpointRef& endpoint, const std::string& rkey) {
  context_->gpus().UseAny();
  ucp_rkey_h unpacked = nullptr;
  const ucs_status_t status = endpoint->failure.ok()
                                  ? api_.RkeyUnpack(endpoint->handle, rkey.data(), &unpacked)
                                  : UCS_ERR_CANCELED;
  if (status == UCS_OK) return unpacked;
  return context_->Failure(status, "taking the peer's UCX key", Code::kUnavailable,
                           reasons::kLinkDown);
}

void Worker::Fail(const EndpointRef& endpoint, Status why) {
  if (!endpoint->failure.ok()) return;
  endpoint->failure = std::move(why);
  std::erase_if(endpoints_, [&](const auto& known) { return known.second == endpoint; });
  CloseEndpoint(*endpoint);
  std::deque<EndId>& lost = lost_[endpoint->peer];
  for (const Endpoint::Pair& pair : endpoint->pairs) lost.push_back(pair.far);
  while (lost.size() > kMaxLostEnds) lost.pop_front();
  const auto ends = ends_;
  for (const auto& [id, end] : ends) end->EndpointFailed(*endpoint);
}

void Worker::CloseEndpoint(const Endpoint& endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  if (endpoint.reports_failure) param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = api_.EpClose(endpoint.handle, &param);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
  loop_.KickPoller();
}

bool Worker::ReapClosing() {
  return std::erase_if(closing_, [&](void* request) {
           if (api_.RequestStatus(request) == UCS_INPROGRESS) return false;
           api_.RequestFree(request);
           return true;
         }) > 0;
}

void Worker::Stop() {
  if (worker_ == nullptr) return;
  for (const auto& [address, endpoint] : std::exchange(endpoints_, {})) {
    endpoint->failure = {Code::kUnavailable, reasons::kDraining, "the ucx link is shut down"};
    CloseEndpoint(*endpoint);
  }
  const auto limit = os::Clock::now() + kStopLimit;
  auto idle = [&] { return closing_.empty() && getting_.empty() && sending_.empty(); };
  int quiet = 0;  // endpoints that are closed by force are taken apart a little later
  while (os::Clock::now() < limit && (!idle() || quiet < kQuietTurns)) {
    const bool worked = api_.WorkerProgress(worker_) != 0;
    quiet = Drain() || worked ? 0 : quiet + 1;
  }
  loop_.Unwatch(events_);
  loop_.SetPoller(nullptr, {}, {});
  ucp_worker_h const worker = std::exchange(worker_, nullptr);
  if (idle()) return api_.WorkerDestroy(worker);
  // A peer of this machine that has died holds a message up for ever. UCX before 1.15 does not
  // survive destroying a worker with such a rest, so it stays until the process ends, and so does
  // what it reads from.
  for (auto& [raw, sending] : sending_) sending.release();
  for (auto& [raw, getting] : getting_) getting.release();
  new std::shared_ptr<Context>(context_);
}

}  // namespace onecopy::ucx
