// Conversions by themselves: every field there and back.
#include "daemon/rpc/convert/peer.h"

#include "onecopy/reasons.h"
#include "tests/unit/rpc/samples.h"

namespace convert_test {
using namespace onecopy;
using namespace onecopy::rpc;
using onecopy::testing::Difference;
using onecopy::testing::FirstUnset;

namespace {

// What stays of a message whose every field says something: all of it.
template <typename Message>
void CheckRoundTrip() {
  const Message message = Sample<Message>();
  INFO(message.GetTypeName());
  CHECK(Difference(Printed<Message>(Parsed(message)), message).empty());
}

}  // namespace

TEST_CASE("messages that are read and written keep every field") {
  CheckRoundTrip<v1::HelloRequest>();
  CheckRoundTrip<v1::HelloResponse>();
  CheckRoundTrip<v1::ReserveRequest>();
  CheckRoundTrip<v1::ReserveResponse>();
  CheckRoundTrip<v1::StartRequest>();
  CheckRoundTrip<v1::Transfer>();
  CheckRoundTrip<v1::ConnectRequest>();
  CheckRoundTrip<v1::ConnectResponse>();
  CheckRoundTrip<v1::PrepareRequest>();
  CheckRoundTrip<v1::PrepareResponse>();
  CheckRoundTrip<v1::OpenRangeRequest>();
  CheckRoundTrip<v1::OpenRangeResponse>();
  CheckRoundTrip<v1::OpenPushRequest>();
  CheckRoundTrip<v1::OpenPushResponse>();
  CheckRoundTrip<v1::ImportMemoryRequest>();
  CheckRoundTrip<v1::MemoryExport>();
  CheckRoundTrip<v1::FinishRequest>();
  CheckRoundTrip<v1::FinishResponse>();
  CheckRoundTrip<v1::Buffer>();
  CheckRoundTrip<v1::ListBuffersResponse>();
  CheckRoundTrip<v1::SumBufferResponse>();
  CheckRoundTrip<v1::ListGrantsResponse>();
  CheckRoundTrip<v1::ListExportsResponse>();
}

TEST_CASE("lists that are only written have every field") {
  const engine::Page<TransferInfo> transfers{{SampleTransfer(), SampleTransfer()}, "next"};
  const auto list = Printed<v1::ListTransfersResponse>(transfers);
  CHECK(list.transfers_size() == 2);
  CHECK(Difference(list.transfers(1), Sample<v1::Transfer>()).empty());
  CHECK(list.next_page_token() == "next");
  const engine::Page<GrantInfo> grants{{SampleGrant()}, "next"};
  CHECK(FirstUnset(Printed<v1::ListGrantsResponse>(grants)).empty());
}

TEST_CASE("what is absent stays absent") {
  v1::CreateTransferRequest create;
  create.mutable_source();
  create.mutable_destination();
  const auto [request, ranges] = Parsed(create);
  CHECK(request.ranges.empty());
  CHECK(ranges.empty());
  engine::HelloReply hello = Parsed(Sample<v1::HelloResponse>());
  hello.self.capabilities.reset();
  CHECK_FALSE(Printed<v1::HelloResponse>(hello).self().has_capabilities());
  v1::FinishRequest finish;
  finish.set_transfer_id("t");
  CHECK(Parsed(finish).status.ok());
}

TEST_CASE("a list of nodes has no capabilities") {
  const engine::Page<NodeInfo> page{{SampleNode()}, "next"};
  const auto list = Printed<v1::ListNodesResponse>(page);
  REQUIRE(list.nodes_size() == 1);
  CHECK_FALSE(list.nodes(0).has_capabilities());
  CHECK(list.nodes(0).name() == SampleNode().name);
  CHECK(list.next_page_token() == "next");
}

TEST_CASE("each form of registered memory becomes the engine's") {
  v1::RegisterBufferRequest message;
  message.set_request_id("r");
  message.set_name("n");
  message.set_bytes(77);
  message.set_validate_only(true);
  message.mutable_memfd()->set_fd_handle(3);
  message.mutable_memfd()->set_offset_bytes(4096);
  engine::RegisterBufferRequest request = Parsed(message);
  CHECK(request.request_id == "r");
  CHECK(request.name == "n");
  CHECK(request.bytes == 77);
  CHECK(request.validate_only);
  CHECK(request.kind == "host");
  CHECK(request.form == "memfd");
  CHECK(request.fd_handle == 3);
  CHECK(request.offset == 4096);

  message.mutable_cuda_ipc()->set_handle(std::string(64, '\0'));
  message.mutable_cuda_ipc()->set_offset_bytes(5);
  message.mutable_cuda_ipc()->set_device("GPU-1");
  message.mutable_cuda_ipc()->mutable_dma_buf()->set_fd_handle(9);
  message.mutable_cuda_ipc()->mutable_dma_buf()->set_offset_bytes(10);
  message.mutable_cuda_ipc()->mutable_dma_buf()->set_refusal("none");
  request = Parsed(message);
  CHECK(request.dmabuf_fd_handle == 9);
  CHECK(request.dmabuf_offset == 10);
  CHECK(request.dmabuf_refusal == "none");
  CHECK(request.kind == "cuda");
  CHECK(request.form == "cuda-ipc");
  CHECK(request.handle == std::string(64, '\0'));
  CHECK(request.offset == 5);
  CHECK(request.device == "GPU-1");
  CHECK(request.fd_handle == 0);

  message.mutable_cuda_vmm()->set_fd_handle(6);
  message.mutable_cuda_vmm()->set_offset_bytes(7);
  message.mutable_cuda_vmm()->set_device("GPU-2");
  message.mutable_cuda_vmm()->set_allocation_bytes(8);
  message.mutable_cuda_vmm()->add_more()->set_fd_handle(9);
  message.mutable_cuda_vmm()->mutable_more(0)->set_bytes(10);
  request = Parsed(message);
  CHECK(request.kind == "cuda");
  CHECK(request.form == "cuda-vmm");
  CHECK(request.fd_handle == 6);
  CHECK(request.offset == 7);
  CHECK(request.device == "GPU-2");
  CHECK(request.allocation_bytes == 8);
  REQUIRE(request.more.size() == 1);
  CHECK(request.more[0].fd_handle == 9);
  CHECK(request.more[0].bytes == 10);

  message.mutable_process()->set_region(3);
  CHECK(Parsed(message).form == "process");
  message.mutable_process()->set_gpu(true);
  CHECK(Parsed(message).kind == "process");
  CHECK(Parsed(message).form == "process-gpu");

  message.mutable_dma_buf()->set_fd_handle(11);
  message.mutable_dma_buf()->set_offset_bytes(12);
  request = Parsed(message);
  CHECK(request.kind == "dmabuf");
  CHECK(request.form == "dmabuf");
  CHECK(request.fd_handle == 11);
  CHECK(request.offset == 12);
  CHECK(request.dmabuf_fd_handle == 0);
}

TEST_CASE("durations are rounded up to milliseconds, so that something does not become nothing") {
  google::protobuf::Duration message;
  message.set_nanos(1);
  auto duration = Parse(message, Field());
  REQUIRE_OK(duration);
  CHECK(*duration == std::chrono::milliseconds(1));
  message.set_nanos(999'999'999);
  duration = Parse(message, Field());
  REQUIRE_OK(duration);
  CHECK(*duration == std::chrono::seconds(1));
  Print(std::chrono::milliseconds(-5), &message);
  CHECK(message.seconds() == 0);
  CHECK(message.nanos() == 0);
  Print(std::chrono::milliseconds(61'001), &message);
  CHECK(message.seconds() == 61);
  CHECK(message.nanos() == 1'000'000);
}

TEST_CASE("times before 1970 are times") {
  google::protobuf::Timestamp message;
  Print(WallTime(std::chrono::milliseconds(-1)), &message);
  CHECK(message.seconds() == -1);
  CHECK(message.nanos() == 999'000'000);
  const auto time = Parse(message, Field());
  REQUIRE_OK(time);
  CHECK(*time == WallTime(std::chrono::milliseconds(-1)));
}

TEST_CASE("a deadline between daemons that has passed on the way is no mistake") {
  engine::StartRequest start = Parsed(Sample<v1::StartRequest>());
  start.asked.deadline = std::chrono::milliseconds(-3);
  const engine::StartRequest read = Parsed(Printed<v1::StartRequest>(start));
  CHECK(read.asked.deadline == std::chrono::milliseconds(0));
}
}  // namespace convert_test
