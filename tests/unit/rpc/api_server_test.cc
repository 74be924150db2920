// Every method of api.sock: what is asked arrives at the engine, its answer at the client.
#include "onecopy/reasons.h"
#include "proto/codec/status_codec.h"
#include "tests/unit/rpc/api_calls.h"
#include "tests/unit/rpc/samples.h"

namespace api_server_test {
using namespace onecopy;
using namespace onecopy::rpc;
using onecopy::testing::Difference;

namespace {

void CheckEndpoint(const Endpoint& value, const v1::Endpoint& message) {
  CHECK(value.node == message.node());
  CHECK(value.buffer == message.buffer());
  CHECK(value.offset_bytes == message.offset_bytes());
  CHECK(value.bytes == message.bytes());
}

std::chrono::milliseconds Milliseconds(const google::protobuf::Duration& message) {
  return std::chrono::milliseconds(message.seconds() * 1000 + message.nanos() / 1'000'000);
}

}  // namespace

TEST_CASE("CreateTransfer") {
  ApiRig rig;
  AnswerWith(rig, SampleTransfer());
  const auto message = Sample<v1::CreateTransferRequest>();
  const auto reply = Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::CreateTransfer, message);
  REQUIRE_OK(reply);
  CHECK(Difference(*reply, Sample<v1::Transfer>()).empty());
  const auto [request, ranges] = Asked<TransferRequest, RangeGroups>(rig, "CreateTransfer");
  CHECK(request.request_id == message.request_id());
  CheckEndpoint(request.source, message.source());
  CheckEndpoint(request.destination, message.destination());
  CHECK(request.policy.path_glob == message.policy().path_glob());
  CHECK(request.policy.at_most_copies == message.policy().at_most_copies());
  CHECK(request.policy.link == message.policy().link());
  CHECK(request.policy.allow_emulated);
  CHECK(request.policy.client_file);
  CHECK(request.checksum);
  CHECK(request.deadline == Milliseconds(message.deadline()));
  CHECK(request.validate_only);
  CHECK(request.part_of.str() == message.part_of());
  CHECK(request.message == message.message());
  REQUIRE(request.more_sources.size() == static_cast<size_t>(message.more_sources_size()));
  REQUIRE(request.more_destinations.size() ==
          static_cast<size_t>(message.more_destinations_size()));
  CheckEndpoint(request.more_sources[0], message.more_sources(0));
  CheckEndpoint(request.more_destinations[0], message.more_destinations(0));
  CHECK_FALSE(ranges.empty());
}

TEST_CASE("OpenSeries and EndSeries") {
  ApiRig rig;
  AnswerWith(rig, SampleTransfer());
  const auto message = Sample<v1::OpenSeriesRequest>();
  const auto opened = Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::OpenSeries, message);
  REQUIRE_OK(opened);
  CHECK(Difference(*opened, Sample<v1::Transfer>()).empty());
  const auto [request] = Asked<SeriesRequest>(rig, "OpenSeries");
  CheckEndpoint(request.source, message.source());
  CHECK(request.source.file == message.source().file());
  CheckEndpoint(request.destination, message.destination());
  CHECK(request.bytes == message.bytes());
  CHECK(request.policy.path_glob == message.policy().path_glob());
  CHECK(request.policy.client_file);
  CHECK(request.checksum);
  CHECK(request.deadline == Milliseconds(message.deadline()));

  v1::EndSeriesRequest end;
  end.set_id("t-3");
  end.set_checksum("abc");
  REQUIRE_OK(Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::EndSeries, end));
  const auto [done] = Asked<SeriesEnd>(rig, "EndSeries");
  CHECK(done.id == TransferId("t-3"));
  CHECK(done.failure.ok());
  CHECK(done.checksum == "abc");
  *end.mutable_failure() = ToProto(Status(Code::kDataLoss, reasons::kIo, "the disk is gone"));
  REQUIRE_OK(Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::EndSeries, end));
  const auto [failed] = Asked<SeriesEnd>(rig, "EndSeries");
  CHECK(failed.failure.code() == Code::kDataLoss);
  CHECK(failed.failure.reason() == reasons::kIo);
}

TEST_CASE("GetTransfer and CancelTransfer") {
  ApiRig rig;
  AnswerWith(rig, SampleTransfer());
  v1::GetTransferRequest get;
  get.set_id("t-1");
  const auto got = Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::GetTransfer, get);
  REQUIRE_OK(got);
  CHECK(Difference(*got, Sample<v1::Transfer>()).empty());
  CHECK(std::get<0>(Asked<TransferId>(rig, "GetTransfer")) == TransferId("t-1"));
  v1::CancelTransferRequest cancel;
  cancel.set_id("t-2");
  const auto cancelled = Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::CancelTransfer, cancel);
  REQUIRE_OK(cancelled);
  CHECK(Difference(*cancelled, Sample<v1::Transfer>()).empty());
  CHECK(std::get<0>(Asked<TransferId>(rig, "CancelTransfer")) == TransferId("t-2"));
}

TEST_CASE("ListTransfers") {
  ApiRig rig;
  AnswerWith(rig, engine::Page<TransferInfo>{{SampleTransfer(), SampleTransfer()}, "n"});
  const auto message = Sample<v1::ListTransfersRequest>();
  const auto reply =
      Ask<v1::ListTransfersResponse>(rig, *rig.transfers, &Transfers::ListTransfers, message);
  REQUIRE_OK(reply);
  CHECK(reply->transfers_size() == 2);
  CHECK(reply->next_page_token() == "n");
  const auto [page] = Asked<engine::PageRequest>(rig, "ListTransfers");
  CHECK(page.size == message.page_size());
  CHECK(page.token == message.page_token());
}

TEST_CASE("CreateBuffer, RegisterBuffer and GetBuffer") {
  ApiRig rig;
  AnswerWith(rig, SampleBuffer());
  const auto create = Sample<v1::CreateBufferRequest>();
  const auto created = Ask<v1::Buffer>(rig, *rig.buffers, &Buffers::CreateBuffer, create);
  REQUIRE_OK(created);
  CHECK(Difference(*created, Sample<v1::Buffer>()).empty());
  const auto [request] = Asked<CreateBufferRequest>(rig, "CreateBuffer");
  CHECK(request.request_id == create.request_id());
  CHECK(request.name == create.name());
  CHECK(request.bytes == create.bytes());
  CHECK(request.memory == create.memory());
  CHECK(request.validate_only);

  auto enroll = Sample<v1::RegisterBufferRequest>();
  enroll.mutable_dma_buf()->set_fd_handle(7);  // one form of several
  const auto registered = Ask<v1::Buffer>(rig, *rig.buffers, &Buffers::RegisterBuffer, enroll);
  REQUIRE_OK(registered);
  CHECK(Difference(*registered, Sample<v1::Buffer>()).empty());
  const auto [memory] = Asked<engine::RegisterBufferRequest>(rig, "RegisterBuffer");
  CHECK(memory.form == "dmabuf");
  CHECK(memory.fd_handle == enroll.dma_buf().fd_handle());

  v1::GetBufferRequest get;
  get.set_node("west");
  get.set_name("weights");
  const auto got = Ask<v1::Buffer>(rig, *rig.buffers, &Buffers::GetBuffer, get);
  REQUIRE_OK(got);
  CHECK(Difference(*got, Sample<v1::Buffer>()).empty());
  const auto [node, name] = Asked<std::string, std::string>(rig, "GetBuffer");
  CHECK(node == "west");
  CHECK(name == "weights");
}

TEST_CASE("ListBuffers") {
  ApiRig rig;
  AnswerWith(rig, engine::Page<BufferInfo>{{SampleBuffer()}, "n"});
  const auto message = Sample<v1::ListBuffersRequest>();
  const auto reply =
      Ask<v1::ListBuffersResponse>(rig, *rig.buffers, &Buffers::ListBuffers, message);
  REQUIRE_OK(reply);
  REQUIRE(reply->buffers_size() == 1);
  CHECK(Difference(reply->buffers(0), Sample<v1::Buffer>()).empty());
  CHECK(reply->next_page_token() == "n");
  const auto [node, page] = Asked<std::string, engine::PageRequest>(rig, "ListBuffers");
  CHECK(node == message.node());
  CHECK(page.size == message.page_size());
  CHECK(page.token == message.page_token());
}

TEST_CASE("ListExports") {
  ApiRig rig;
  AnswerWith(rig, engine::Page<ExportInfo>{{Parsed(Sample<v1::Export>())}, "n"});
  const auto message = Sample<v1::ListExportsRequest>();
  const auto reply = Ask<v1::ListExportsResponse>(rig, *rig.nodes, &Nodes::ListExports, message);
  REQUIRE_OK(reply);
  REQUIRE(reply->exports_size() == 1);
  CHECK(Difference(reply->exports(0), Sample<v1::Export>()).empty());
  CHECK(reply->next_page_token() == "n");
  const auto [node, page] = Asked<std::string, engine::PageRequest>(rig, "ListExports");
  CHECK(node == message.node());
  CHECK(page.size == message.page_size());
  CHECK(page.token == message.page_token());
}

TEST_CASE("DeleteBuffer and SumBuffer") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.script.AnswerOk(); });
  v1::DeleteBufferRequest remove;
  remove.set_node("west");
  remove.set_name("weights");
  remove.set_force(true);
  REQUIRE_OK(Ask<google::protobuf::Empty>(rig, *rig.buffers, &Buffers::DeleteBuffer, remove));
  const auto [node, name, force] = Asked<std::string, std::string, bool>(rig, "DeleteBuffer");
  CHECK(node == "west");
  CHECK(name == "weights");
  CHECK(force);

  AnswerWith(rig, BufferSum{"xxh3-128", "abc", 77, {"d", "e"}});
  const auto sum = Sample<v1::SumBufferRequest>();
  const auto summed = Ask<v1::SumBufferResponse>(rig, *rig.buffers, &Buffers::SumBuffer, sum);
  REQUIRE_OK(summed);
  CHECK(summed->checksum().algorithm() == "xxh3-128");
  CHECK(summed->checksum().value() == "abc");
  CHECK(summed->bytes() == 77);
  CHECK(summed->block_values_size() == 2);
  const auto asked = std::get<0>(Asked<SumRequest>(rig, "SumBuffer"));
  CheckEndpoint(asked.range, sum.range());
  CHECK(asked.block_bytes == sum.block_bytes());
}

TEST_CASE("CreateGrant, ListGrants and DeleteGrant") {
  ApiRig rig;
  AnswerWith(rig, SampleGrant());
  const auto message = Sample<v1::CreateGrantRequest>();
  const auto created = Ask<v1::Grant>(rig, *rig.buffers, &Buffers::CreateGrant, message);
  REQUIRE_OK(created);
  CHECK(Difference(*created, Sample<v1::Grant>()).empty());
  const auto [request] = Asked<CreateGrantRequest>(rig, "CreateGrant");
  CheckEndpoint(request.range, message.range());
  CHECK(request.to == message.to());
  CHECK(request.read);
  CHECK(request.write);
  CHECK(request.lifetime == Milliseconds(message.lifetime()));

  AnswerWith(rig, engine::Page<GrantInfo>{{SampleGrant()}, "n"});
  const auto list = Sample<v1::ListGrantsRequest>();
  const auto listed = Ask<v1::ListGrantsResponse>(rig, *rig.buffers, &Buffers::ListGrants, list);
  REQUIRE_OK(listed);
  CHECK(listed->grants_size() == 1);
  CHECK(listed->next_page_token() == "n");
  const auto [node, buffer, page] =
      Asked<std::string, std::string, engine::PageRequest>(rig, "ListGrants");
  CHECK(node == list.node());
  CHECK(buffer == list.buffer());
  CHECK(page.size == list.page_size());
  CHECK(page.token == list.page_token());

  v1::DeleteGrantRequest remove;
  remove.set_id("g9");
  REQUIRE_OK(Ask<google::protobuf::Empty>(rig, *rig.buffers, &Buffers::DeleteGrant, remove));
  CHECK(std::get<0>(Asked<GrantId>(rig, "DeleteGrant")) == GrantId("g9"));
}

TEST_CASE("GetNode and ListNodes") {
  ApiRig rig;
  AnswerWith(rig, SampleNode());
  v1::GetNodeRequest get;
  get.set_name("west");
  const auto got = Ask<v1::Node>(rig, *rig.nodes, &Nodes::GetNode, get);
  REQUIRE_OK(got);
  CHECK(Difference(*got, Sample<v1::Node>()).empty());
  CHECK(std::get<0>(Asked<std::string>(rig, "GetNode")) == "west");

  AnswerWith(rig, engine::Page<NodeInfo>{{SampleNode()}, "n"});
  const auto list = Sample<v1::ListNodesRequest>();
  const auto listed = Ask<v1::ListNodesResponse>(rig, *rig.nodes, &Nodes::ListNodes, list);
  REQUIRE_OK(listed);
  CHECK(listed->nodes_size() == 1);
  CHECK(listed->next_page_token() == "n");
  const auto [page] = Asked<engine::PageRequest>(rig, "ListNodes");
  CHECK(page.size == list.page_size());
  CHECK(page.token == list.page_token());
}

TEST_CASE("ProbeNode") {
  ApiRig rig;
  AnswerWith(rig, std::vector<ProbeInfo>{SampleProbe()});
  v1::ProbeNodeRequest request;
  request.set_name("west");
  const auto got = Ask<v1::ProbeNodeResponse>(rig, *rig.nodes, &Nodes::ProbeNode, request);
  REQUIRE_OK(got);
  CHECK(std::get<0>(Asked<std::string>(rig, "ProbeNode")) == "west");
  REQUIRE(got->probes_size() == 1);
  CHECK(Difference(got->probes(0), Sample<v1::Probe>()).empty());
}

TEST_CASE("ReleaseDevice, SetLogLevel and SetDraining") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.script.AnswerOk(); });
  v1::ReleaseDeviceRequest release;
  release.set_device("cuda:0");
  REQUIRE_OK(Ask<google::protobuf::Empty>(rig, *rig.nodes, &Nodes::ReleaseDevice, release));
  CHECK(std::get<0>(Asked<std::string>(rig, "ReleaseDevice")) == "cuda:0");

  AnswerWith(rig, std::string("info"));
  v1::SetLogLevelRequest level;
  level.set_level("debug");
  const auto set = Ask<v1::SetLogLevelResponse>(rig, *rig.nodes, &Nodes::SetLogLevel, level);
  REQUIRE_OK(set);
  CHECK(set->previous_level() == "info");
  CHECK(std::get<0>(Asked<std::string>(rig, "SetLogLevel")) == "debug");

  AnswerWith(rig, uint64_t{3});
  v1::SetDrainingRequest drain;
  drain.set_draining(true);
  const auto drained = Ask<v1::SetDrainingResponse>(rig, *rig.nodes, &Nodes::SetDraining, drain);
  REQUIRE_OK(drained);
  CHECK(drained->running() == 3);
  CHECK(Asked<bool, bool>(rig, "SetDraining") == std::tuple(true, false));
}
}  // namespace api_server_test
