// Many buffers that the daemon makes.
#include <memory>
#include <utility>
#include <vector>

#include "client/lib/calls/wire.h"
#include "client/lib/memory/call_queue.h"
#include "client/lib/session/connection.h"
#include "onecopy/client.h"
#include "onecopy/v1/buffer.grpc.pb.h"

namespace onecopy {
namespace {

using client::CallQueue;
using client::CheckText;

Status Check(const CreateBufferRequest& request) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", request.name));
  ONECOPY_RETURN_IF_ERROR(CheckText("the memory", request.memory));
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", request.node));
  return CheckText("the request id", request.request_id);
}

struct Creation {
  size_t number = 0;  // among the requests
  v1::CreateBufferRequest request;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Buffer>> reader;
  v1::Buffer reply;
  grpc::Status status;
};

}  // namespace

std::vector<Result<BufferInfo>> Client::CreateBuffers(
    const std::vector<CreateBufferRequest>& requests) {
  const Result<client::SessionRef> session = connection_->Current();
  if (!session.ok()) return {requests.size(), Result<BufferInfo>(session.status())};
  std::vector<Result<BufferInfo>> made(requests.size(), Result<BufferInfo>(BufferInfo()));
  std::vector<std::unique_ptr<Creation>> creations(requests.size());
  CallQueue queue;
  size_t under_way = 0;
  const auto take_one = [&] {
    auto* const ended = static_cast<Creation*>(queue.Next());
    made[ended->number] = ended->status.ok() ? client::Read(ended->reply)
                                             : Result<BufferInfo>(connection_->Explain(
                                                   **session, (*session)->Decode(ended->status)));
    creations[ended->number].reset();
    --under_way;
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    if (const Status wrong = Check(requests[i]); !wrong.ok()) {
      made[i] = wrong;
      continue;
    }
    while (under_way >= client::kCallsUnderWay) take_one();
    creations[i] = std::make_unique<Creation>();
    Creation& one = *creations[i];
    one.number = i;
    codec::Print(requests[i], &one.request);
    one.request.set_request_id(client::ChosenOr(requests[i].request_id));
    (*session)->Prepare(one.context, client::Patience::kWorking);
    one.reader = (*session)->stub<v1::BufferService::Stub>().AsyncCreateBuffer(
        &one.context, one.request, &queue.get());
    one.reader->Finish(&one.reply, &one.status, &one);
    ++under_way;
  }
  while (under_way > 0) take_one();
  return made;
}

Result<BufferInfo> Client::CreateBuffer(const CreateBufferRequest& request) {
  return CreateBuffers({request})[0];
}

}  // namespace onecopy
