// Many buffers that the daemon makes.
#include <functional>
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
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Buffer>> reader;
  v1::Buffer reply;
  grpc::Status status;
};

// Asks for the buffers of these numbers, several at a time, and calls `ended` for each.
void CreateEach(const client::Session& session, const std::vector<v1::CreateBufferRequest>& wires,
                const std::vector<size_t>& numbers,
                const std::function<void(size_t, Result<BufferInfo>)>& ended) {
  std::vector<std::unique_ptr<Creation>> creations(wires.size());
  CallQueue queue;
  size_t under_way = 0;
  const auto take_one = [&] {
    auto* const one = static_cast<Creation*>(queue.Next());
    ended(one->number, one->status.ok() ? client::Read(one->reply)
                                        : Result<BufferInfo>(session.Decode(one->status)));
    creations[one->number].reset();
    --under_way;
  };
  for (const size_t number : numbers) {
    while (under_way >= client::kCallsUnderWay) take_one();
    creations[number] = std::make_unique<Creation>();
    Creation& one = *creations[number];
    one.number = number;
    session.Prepare(one.context, client::Patience::kWorking);
    one.reader = session.stub<v1::BufferService::Stub>().AsyncCreateBuffer(
        &one.context, wires[number], &queue.get());
    one.reader->Finish(&one.reply, &one.status, &one);
    ++under_way;
  }
  while (under_way > 0) take_one();
}

}  // namespace

std::vector<Result<BufferInfo>> Client::CreateBuffers(
    const std::vector<CreateBufferRequest>& requests) {
  std::vector<Result<BufferInfo>> made(requests.size(), Result<BufferInfo>(BufferInfo()));
  std::vector<v1::CreateBufferRequest> wires(requests.size());
  std::vector<size_t> numbers;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (Status wrong = Check(requests[i]); !wrong.ok()) {
      made[i] = std::move(wrong);
      continue;
    }
    codec::Print(requests[i], &wires[i]);
    wires[i].set_request_id(client::ChosenOr(requests[i].request_id));
    numbers.push_back(i);
  }
  for (bool first = true; !numbers.empty(); first = false) {
    const Result<client::SessionRef> session = connection_->Current();
    std::vector<size_t> again;
    if (!session.ok()) {
      // Those that were asked for before already have their failure: they may have been made.
      for (const size_t number : numbers) {
        if (first) made[number] = session.status();
      }
      break;
    }
    CreateEach(**session, wires, numbers, [&](size_t number, Result<BufferInfo> buffer) {
      // The next process of a daemon that keeps its buffers knows their request ids, too.
      if (first && !buffer.ok() && (*session)->GoesOnAfter(buffer.status()))
        again.push_back(number);
      made[number] = buffer.ok()
                         ? std::move(buffer)
                         : Result<BufferInfo>(connection_->Explain(**session, buffer.status()));
    });
    numbers = std::move(again);
  }
  return made;
}

Result<BufferInfo> Client::CreateBuffer(const CreateBufferRequest& request) {
  return CreateBuffers({request})[0];
}

}  // namespace onecopy
