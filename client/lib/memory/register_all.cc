#include "client/lib/memory/register_all.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <utility>

#include "client/lib/calls/wire.h"
#include "client/lib/memory/call_queue.h"
#include "client/lib/memory/register_cuda.h"
#include "client/lib/session/registered_memory.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "transport/shim/cuda_export.h"

namespace onecopy::client {
namespace {

using BufferStub = v1::BufferService::Stub;

// One piece on its way: a call, or two where the first shows that only this process reaches the
// memory.
class Registering {
 public:
  Registering(Connection& connection, Session& session, const MemoryToRegister& memory,
              size_t number)
      : connection_(connection), session_(session), memory_(memory), number_(number) {
    request_.set_name(memory.name);
    request_.set_bytes(memory.bytes);
  }

  size_t number() const { return number_; }            // among the pieces
  size_t descriptors() const { return descriptors_; }  // at least 1

  // Nothing where its call has begun, whose end `queue` then tells with this as its tag; else what
  // it failed with.
  std::optional<Status> Begin(grpc::CompletionQueue& queue) {
    Status ready = CheckText("the buffer's name", memory_.name);
    if (ready.ok()) ready = memory_.cuda ? ExportGpu() : AddOwn();
    if (!ready.ok()) return ready;
    Call(queue);
    return std::nullopt;
  }

  // Its call has ended: what it came to, or nothing where another one has begun.
  std::optional<Result<BufferInfo>> Next(grpc::CompletionQueue& queue) {
    Result<BufferInfo> info =
        status_.ok() ? Read(reply_)
                     : Result<BufferInfo>(connection_.Explain(session_, session_.Decode(status_)));
    if (!info.ok() && memory_.cuda && !region_ && IsOutOfReach(info.status())) {
      if (Status own = AddOwnGpu(info.status()); !own.ok()) return own;
      Call(queue);
      return std::nullopt;
    }
    if (region_) SettleOwn(session_, *region_, info);
    if (info.ok()) connection_.registrations().Add(*info, session_.number());
    return info;
  }

 private:
  // What no other process can map costs a copy more, by this one.
  static bool IsOutOfReach(const Status& refusal) {
    return refusal.reason() == reasons::kNotShareable || refusal.reason() == reasons::kPidNamespace;
  }

  uintptr_t address() const { return reinterpret_cast<uintptr_t>(memory_.pointer); }

  Status ExportGpu() {
    ONECOPY_ASSIGN_OR_RETURN(api_, connection_.Cuda());
    AttachSocket& attach = session_.attach();
    const Result<shim::CudaExport> exported =
        shim::ExportCuda(*api_, address(), memory_.bytes,
                         attach.takes_dma_bufs() ? shim::DmaBufs::kExport : shim::DmaBufs::kLeave);
    if (exported.ok()) {
      descriptors_ += exported->more.size();
      return AddCuda(attach, *exported, request_);
    }
    return IsOutOfReach(exported.status()) ? AddOwnGpu(exported.status()) : exported.status();
  }

  Status AddOwnGpu(const Status& refusal) {
    const Result<shim::CudaOwn> own = shim::FindOwnCuda(*api_, address(), memory_.bytes);
    if (!own.ok()) {
      return own.status().reason() == reasons::kNotShareable ? refusal : own.status();
    }
    ONECOPY_ASSIGN_OR_RETURN(region_,
                             session_.own_memory().AddCuda(api_, address(), memory_.bytes, *own));
    request_.mutable_process()->set_gpu(true);
    request_.mutable_process()->set_region(*region_);
    return OkStatus();
  }

  Status AddOwn() {
    ONECOPY_ASSIGN_OR_RETURN(
        region_, session_.own_memory().Add(memory_.pointer, memory_.bytes, memory_.access));
    request_.mutable_process()->set_read_only(memory_.access == MemoryAccess::kRead);
    request_.mutable_process()->set_region(*region_);
    return OkStatus();
  }

  void Call(grpc::CompletionQueue& queue) {
    Complete(session_, request_);
    context_ = std::make_unique<grpc::ClientContext>();
    session_.Prepare(*context_, Patience::kWorking);
    reader_ = session_.stub<BufferStub>().AsyncRegisterBuffer(context_.get(), request_, &queue);
    reader_->Finish(&reply_, &status_, this);
  }

  Connection& connection_;
  Session& session_;
  const MemoryToRegister& memory_;
  const size_t number_;
  size_t descriptors_ = 1;
  std::shared_ptr<const shim::CudaApi> api_;
  std::optional<uint64_t> region_;  // of what this process copies
  v1::RegisterBufferRequest request_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Buffer>> reader_;
  v1::Buffer reply_;
  grpc::Status status_;
};

}  // namespace

std::vector<Result<BufferInfo>> RegisterAll(Connection& connection,
                                            const std::vector<MemoryToRegister>& memory) {
  // What is passed over the session's socket counts in that session alone.
  const Result<SessionRef> session = connection.Current();
  if (!session.ok()) return {memory.size(), Result<BufferInfo>(session.status())};
  std::vector<std::optional<Result<BufferInfo>>> outcomes(memory.size());
  std::vector<std::unique_ptr<Registering>> pieces(memory.size());
  CallQueue queue;
  size_t under_way = 0;
  const auto take_one = [&] {
    auto* const ended = static_cast<Registering*>(queue.Next());
    const size_t number = ended->number();
    outcomes[number] = ended->Next(queue.get());
    if (!outcomes[number]) return;
    under_way -= ended->descriptors();
    pieces[number].reset();
  };
  for (size_t i = 0; i < memory.size(); ++i) {
    while (under_way >= kCallsUnderWay) take_one();
    pieces[i] = std::make_unique<Registering>(connection, **session, memory[i], i);
    if (std::optional<Status> failure = pieces[i]->Begin(queue.get())) {
      outcomes[i] = *std::move(failure);
      pieces[i].reset();
    } else {
      under_way += pieces[i]->descriptors();
    }
  }
  while (under_way > 0) take_one();
  std::vector<Result<BufferInfo>> all;
  all.reserve(memory.size());
  for (auto& outcome : outcomes) all.push_back(*std::move(outcome));
  return all;
}

}  // namespace onecopy::client
