// Conversions by themselves: every field there and back, and every kind of bad input.
#include "daemon/rpc/convert_peer.h"

#include "tests/unit/rpc/samples.h"
#include "transport/core/reasons.h"

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

// A good message that `spoil` has made bad is refused with the field's name.
template <typename Message, typename Spoil>
void CheckRefused(Spoil spoil, const std::string& field,
                  std::string_view reason = reasons::kBadArgument) {
  Message message = Sample<Message>();
  REQUIRE_OK(Parse(message));
  spoil(message);
  const Status status = Parse(message).status();
  INFO(message.GetTypeName() << ": " << field << " -> " << status.ToString());
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.reason() == reason);
  CHECK(status.message().starts_with(field + ":"));
}

const std::string kLongName(257, 'x');

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
  CheckRoundTrip<v1::BorrowRequest>();
  CheckRoundTrip<v1::Loan>();
  CheckRoundTrip<v1::FinishRequest>();
  CheckRoundTrip<v1::FinishResponse>();
  CheckRoundTrip<v1::Buffer>();
  CheckRoundTrip<v1::ListBuffersResponse>();
  CheckRoundTrip<v1::SumBufferResponse>();
}

TEST_CASE("messages that are only written have every field") {
  CHECK(FirstUnset(Printed<v1::Grant>(SampleGrant())).empty());
  CHECK(FirstUnset(Printed<v1::Node>(SampleNode())).empty());
  const engine::Page<engine::TransferInfo> transfers{{SampleTransfer(), SampleTransfer()}, "next"};
  const auto list = Printed<v1::ListTransfersResponse>(transfers);
  CHECK(list.transfers_size() == 2);
  CHECK(Difference(list.transfers(1), Sample<v1::Transfer>()).empty());
  CHECK(list.next_page_token() == "next");
  const engine::Page<engine::GrantInfo> grants{{SampleGrant()}, "next"};
  CHECK(FirstUnset(Printed<v1::ListGrantsResponse>(grants)).empty());
}

TEST_CASE("every state of a transfer and every part in it survive") {
  for (int state = v1::PENDING; state <= v1::UNCONFIRMED; ++state) {
    for (int role = v1::DESTINATION; role <= v1::ORDERER; ++role) {
      v1::Transfer message = Sample<v1::Transfer>();
      message.set_state(static_cast<v1::TransferState>(state));
      message.set_role(static_cast<v1::TransferRole>(role));
      CHECK(Difference(Printed<v1::Transfer>(Parsed(message)), message).empty());
    }
  }
}

TEST_CASE("every state of a node is written") {
  engine::NodeInfo node = SampleNode();
  const std::map<engine::NodeState, v1::NodeState> states = {
      {engine::NodeState::kConnected, v1::CONNECTED},
      {engine::NodeState::kDisconnected, v1::DISCONNECTED},
      {engine::NodeState::kIncompatible, v1::INCOMPATIBLE},
      {engine::NodeState::kDraining, v1::DRAINING}};
  for (const auto& [state, printed] : states) {
    node.state = state;
    CHECK(Printed<v1::Node>(node).state() == printed);
  }
}

TEST_CASE("ranges of a request are read as pairs, and columns that do not fit are refused") {
  using Create = v1::CreateTransferRequest;
  const engine::TransferRequest request = Parsed(Sample<Create>());
  REQUIRE(request.ranges != nullptr);
  CHECK(request.ranges->ranges == 2);
  CHECK(request.ranges->source.bytes() == 28);
  CHECK(request.ranges->source.extent() == ByteRange{100, 232});
  CHECK(request.ranges->destination.pieces() ==
        std::vector<StridedRange>{{0, 6, 10, 2}, {400, 4, 10, 4}});
  CheckRefused<Create>([](Create& m) { m.clear_source_ranges(); }, "source_ranges");
  CheckRefused<Create>([](Create& m) { m.clear_destination_ranges(); }, "destination_ranges");
  CheckRefused<Create>([](Create& m) { m.mutable_source_ranges()->add_bytes(1); },
                       "source_ranges.bytes");
  CheckRefused<Create>([](Create& m) { m.mutable_source_ranges()->add_stride_bytes(1); },
                       "source_ranges.stride_bytes");
  CheckRefused<Create>([](Create& m) { m.mutable_destination_ranges()->add_count(1); },
                       "destination_ranges.count");
  const auto refused = [](auto spoil) {
    Create message = Sample<Create>();
    spoil(message);
    return Parse(message).status().reason();
  };
  CHECK(refused([](Create& m) { m.mutable_source_ranges()->set_count(0, 4); }) ==
        reasons::kSizeMismatch);
  CHECK(refused([](Create& m) { m.mutable_source_ranges()->set_stride_bytes(0, 3); }) ==
        reasons::kRangesOverlap);
  CHECK(refused([](Create& m) { m.mutable_destination_ranges()->set_offset_bytes(1, 505); }) ==
        reasons::kRangesOverlap);
  CHECK(refused([](Create& m) { m.mutable_source_ranges()->set_offset_bytes(0, ~uint64_t{0}); }) ==
        reasons::kRangeOutOfBuffer);
  CHECK(refused([](Create& m) { m.mutable_source_ranges()->Clear(); }) == reasons::kSizeMismatch);
  v1::StartRequest start = Sample<v1::StartRequest>();
  start.mutable_source_ranges()->set_count(0, 4);
  CHECK(Parse(start).status().reason() == reasons::kSizeMismatch);
}

TEST_CASE("what is absent stays absent") {
  v1::CreateTransferRequest create;
  create.mutable_source();
  create.mutable_destination();
  const engine::TransferRequest request = Parsed(create);
  CHECK_FALSE(request.source.offset.has_value());
  CHECK_FALSE(request.source.bytes.has_value());
  CHECK_FALSE(request.policy.at_most_copies.has_value());
  CHECK_FALSE(request.deadline.has_value());
  CHECK(request.ranges == nullptr);

  engine::TransferInfo transfer;
  transfer.id = TransferId("t");
  const auto message = Printed<v1::Transfer>(transfer);
  CHECK_FALSE(message.has_end_time());
  CHECK_FALSE(message.has_plan());
  CHECK_FALSE(message.has_error());
  CHECK_FALSE(message.receipt().has_checksum());
  CHECK_FALSE(message.source().has_offset_bytes());
  CHECK(Parsed(message).error.ok());

  engine::NodeInfo stranger = SampleNode();
  stranger.capabilities = {};
  CHECK_FALSE(Printed<v1::Node>(stranger).has_capabilities());
  engine::HelloReply hello = Parsed(Sample<v1::HelloResponse>());
  hello.self.capabilities.reset();
  CHECK_FALSE(Printed<v1::HelloResponse>(hello).self().has_capabilities());
  v1::FinishRequest finish;
  finish.set_transfer_id("t");
  CHECK(Parsed(finish).status.ok());
}

TEST_CASE("a list of nodes has no capabilities") {
  const engine::Page<engine::NodeInfo> page{{SampleNode()}, "next"};
  const auto list = Printed<v1::ListNodesResponse>(page);
  REQUIRE(list.nodes_size() == 1);
  CHECK_FALSE(list.nodes(0).has_capabilities());
  CHECK(list.nodes(0).name() == SampleNode().name);
  CHECK(list.next_page_token() == "next");
}

TEST_CASE("a receipt's rate is its bytes by its seconds, and nothing for no time") {
  engine::TransferInfo transfer = SampleTransfer();
  transfer.bytes = 1000;
  transfer.receipt.seconds = 0.5;
  CHECK(Printed<v1::Transfer>(transfer).receipt().bytes_per_second() == 2000);
  transfer.receipt.seconds = 0;
  CHECK(Printed<v1::Transfer>(transfer).receipt().bytes_per_second() == 0);
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
  request = Parsed(message);
  CHECK(request.kind == "cuda");
  CHECK(request.form == "cuda-vmm");
  CHECK(request.fd_handle == 6);
  CHECK(request.offset == 7);
  CHECK(request.device == "GPU-2");
  CHECK(request.allocation_bytes == 8);

  message.mutable_dma_buf()->set_fd_handle(11);
  message.mutable_dma_buf()->set_offset_bytes(12);
  request = Parsed(message);
  CHECK(request.kind == "dmabuf");
  CHECK(request.form == "dmabuf");
  CHECK(request.fd_handle == 11);
  CHECK(request.offset == 12);
  CHECK(request.dmabuf_fd_handle == 0);
}

TEST_CASE("bad requests of clients are refused with the field's name") {
  using Transfer = v1::CreateTransferRequest;
  CheckRefused<Transfer>([](Transfer& m) { m.set_request_id(std::string(65, 'r')); }, "request_id");
  CheckRefused<Transfer>([](Transfer& m) { m.clear_source(); }, "source");
  CheckRefused<Transfer>([](Transfer& m) { m.clear_destination(); }, "destination");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_source()->set_node(kLongName); },
                         "source.node");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_destination()->set_buffer(kLongName); },
                         "destination.buffer");
  CheckRefused<Transfer>(
      [](Transfer& m) { m.mutable_policy()->set_path_glob(std::string(65, '*')); },
      "policy.path_glob");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_policy()->set_link(kLongName); },
                         "policy.link");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_deadline()->set_seconds(-1); }, "deadline");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_deadline()->set_nanos(-1); }, "deadline");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_deadline()->set_nanos(1'000'000'000); },
                         "deadline");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_deadline()->set_seconds(INT64_MAX); },
                         "deadline");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_deadline()->Clear(); }, "deadline");

  using List = v1::ListTransfersRequest;
  CheckRefused<List>([](List& m) { m.set_page_size(-1); }, "page_size");
  CheckRefused<List>([](List& m) { m.set_page_token(std::string(1025, 't')); }, "page_token");
  using Get = v1::GetTransferRequest;
  CheckRefused<Get>([](Get& m) { m.clear_id(); }, "id");
  CheckRefused<Get>([](Get& m) { m.set_id(kLongName); }, "id");

  using Create = v1::CreateBufferRequest;
  CheckRefused<Create>([](Create& m) { m.set_name(kLongName); }, "name");
  CheckRefused<Create>([](Create& m) { m.set_memory(kLongName); }, "memory");
  CheckRefused<Create>([](Create& m) { m.set_request_id(kLongName); }, "request_id");

  using Register = v1::RegisterBufferRequest;
  CheckRefused<Register>([](Register& m) { m.clear_memory(); }, "memory");
  CheckRefused<Register>([](Register& m) { m.mutable_memfd()->set_fd_handle(0); },
                         "memfd.fd_handle", reasons::kBadHandle);
  CheckRefused<Register>([](Register& m) { m.mutable_cuda_vmm()->set_fd_handle(0); },
                         "cuda_vmm.fd_handle", reasons::kBadHandle);
  CheckRefused<Register>([](Register& m) { m.mutable_dma_buf()->set_fd_handle(0); },
                         "dma_buf.fd_handle", reasons::kBadHandle);
  CheckRefused<Register>(
      [](Register& m) {
        m.mutable_cuda_vmm()->set_fd_handle(1);
        m.mutable_cuda_vmm()->set_device(kLongName);
      },
      "cuda_vmm.device");
  CheckRefused<Register>(
      [](Register& m) {
        m.mutable_cuda_ipc()->set_handle(std::string(64, 'h'));
        m.mutable_cuda_ipc()->mutable_dma_buf()->set_refusal(std::string(4097, 'r'));
      },
      "cuda_ipc.dma_buf.refusal");
  for (const size_t bytes : {0, 63, 65}) {
    CheckRefused<Register>(
        [bytes](Register& m) { m.mutable_cuda_ipc()->set_handle(std::string(bytes, 'h')); },
        "cuda_ipc.handle", reasons::kBadHandle);
  }

  using Sum = v1::SumBufferRequest;
  CheckRefused<Sum>([](Sum& m) { m.clear_range(); }, "range");
  using Grant = v1::CreateGrantRequest;
  CheckRefused<Grant>([](Grant& m) { m.clear_range(); }, "range");
  CheckRefused<Grant>([](Grant& m) { m.set_to(kLongName); }, "to");
  CheckRefused<Grant>([](Grant& m) { m.mutable_lifetime()->set_seconds(-5); }, "lifetime");
  using Node = v1::GetNodeRequest;
  CheckRefused<Node>([](Node& m) { m.set_name(kLongName); }, "name");
  using Device = v1::ReleaseDeviceRequest;
  CheckRefused<Device>([](Device& m) { m.set_device(kLongName); }, "device");
  using Level = v1::SetLogLevelRequest;
  CheckRefused<Level>([](Level& m) { m.set_level(kLongName); }, "level");
}

TEST_CASE("peers are not trusted either") {
  using Hello = v1::HelloRequest;
  CheckRefused<Hello>([](Hello& m) { m.clear_self(); }, "self");
  for (const std::string name : {"../etc", "-x", "a b", "x\ny", "caf\xc3\xa9"}) {
    CheckRefused<Hello>([&](Hello& m) { m.mutable_self()->set_node(name); }, "self.node",
                        reasons::kBadName);
  }
  CheckRefused<Hello>([](Hello& m) { m.mutable_self()->set_node(std::string(64, 'x')); },
                      "self.node", reasons::kBadName);
  CheckRefused<Hello>([](Hello& m) { m.mutable_self()->clear_node(); }, "self.node");
  CheckRefused<Hello>([](Hello& m) { m.mutable_self()->set_protocol_max(0); }, "self.protocol_min");
  CheckRefused<Hello>(
      [](Hello& m) {
        m.mutable_self()->mutable_capabilities()->mutable_links(1)->mutable_nics(0)->set_fabric(
            kLongName);
      },
      "self.capabilities.links[1].nics[0].fabric");
  CheckRefused<v1::HelloRequest>(
      [](auto& m) {
        auto& topology = *m.mutable_self()->mutable_capabilities()->mutable_topology();
        while (topology.devices_size() < 257) *topology.add_devices() = topology.devices(0);
      },
      "self.capabilities.topology.devices");
  CheckRefused<v1::HelloRequest>(
      [](auto& m) {
        m.mutable_self()->mutable_capabilities()->mutable_topology()->add_distances(v1::PIX);
      },
      "self.capabilities.topology.distances");
  CheckRefused<v1::HelloRequest>(
      [](auto& m) {
        auto& topology = *m.mutable_self()->mutable_capabilities()->mutable_topology();
        topology.mutable_devices(1)->set_kind(v1::DEVICE_KIND_UNSPECIFIED);
      },
      "self.capabilities.topology.devices[1].kind");
  CheckRefused<v1::HelloRequest>(
      [](auto& m) {
        auto& topology = *m.mutable_self()->mutable_capabilities()->mutable_topology();
        topology.mutable_devices(1)->set_numa_node(-7);
      },
      "self.capabilities.topology.devices[1].numa_node");
  CheckRefused<Hello>(
      [](Hello& m) {
        auto* memories = m.mutable_self()->mutable_capabilities()->mutable_memories();
        while (memories->size() <= 4096) memories->Add();
      },
      "self.capabilities.memories");
  CheckRefused<Hello>(
      [](Hello& m) {
        auto& memory = *m.mutable_self()->mutable_capabilities()->mutable_memories(0);
        (*memory.mutable_attributes())["why"] = std::string(5000, 'x');
      },
      "self.capabilities.memories[0].attributes.why");

  using Transfer = v1::Transfer;
  CheckRefused<Transfer>([](Transfer& m) { m.set_state(v1::TRANSFER_STATE_UNSPECIFIED); }, "state");
  CheckRefused<Transfer>([](Transfer& m) { m.set_state(static_cast<v1::TransferState>(99)); },
                         "state");
  CheckRefused<Transfer>([](Transfer& m) { m.set_role(static_cast<v1::TransferRole>(99)); },
                         "role");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_create_time()->set_nanos(-1); },
                         "create_time");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_end_time()->set_seconds(INT64_MIN); },
                         "end_time");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_plan()->set_copies(7); }, "plan.copies");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_receipt()->set_copies(7); }, "receipt.copies");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_receipt()->set_seconds(-1); },
                         "receipt.seconds");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_receipt()->set_seconds(std::nan("")); },
                         "receipt.seconds");
  CheckRefused<Transfer>(
      [](Transfer& m) { m.mutable_receipt()->mutable_steps(1)->set_from(kLongName); },
      "receipt.steps[1].from");
  CheckRefused<Transfer>(
      [](Transfer& m) { m.mutable_plan()->mutable_refused(0)->set_detail(std::string(5000, 'd')); },
      "plan.refused[0].detail");

  using Reserve = v1::ReserveRequest;
  CheckRefused<Reserve>([](Reserve& m) { m.set_destination_node(""); }, "destination_node");
  CheckRefused<Reserve>([](Reserve& m) { m.clear_source(); }, "source");
  using Start = v1::StartRequest;
  CheckRefused<Start>([](Start& m) { m.clear_reservation(); }, "reservation");
  CheckRefused<Start>([](Start& m) { m.clear_destination(); }, "destination");
  CheckRefused<Start>([](Start& m) { m.mutable_reservation()->set_ticket(kLongName); },
                      "reservation.ticket");
  using Connect = v1::ConnectRequest;
  CheckRefused<Connect>([](Connect& m) { m.set_offer(std::string(65537, 'o')); }, "offer");
  using Prepare = v1::PrepareRequest;
  CheckRefused<Prepare>([](Prepare& m) { m.clear_transfer(); }, "transfer");
  CheckRefused<Prepare>([](Prepare& m) { m.clear_transfer_id(); }, "transfer_id");
  using Finish = v1::FinishRequest;
  CheckRefused<Finish>([](Finish& m) { m.clear_transfer_id(); }, "transfer_id");
  using Report = v1::ReportRequest;
  CheckRefused<Report>([](Report& m) { m.clear_transfer(); }, "transfer");
  using Query = v1::QueryTransferRequest;
  CheckRefused<Query>([](Query& m) { m.clear_transfer_id(); }, "transfer_id");
  using Key = v1::PrepareResponse;
  CheckRefused<Key>([](Key& m) { m.set_key(std::string(65537, 'k')); }, "key");
  using Borrow = v1::BorrowRequest;
  CheckRefused<Borrow>([](Borrow& m) { m.clear_transfer_id(); }, "transfer_id");
  using Loan = v1::Loan;
  CheckRefused<Loan>([](Loan& m) { m.clear_loan(); }, "loan");
  CheckRefused<Loan>([](Loan& m) { m.set_address(std::string(257, 'a')); }, "address");
  CheckRefused<Loan>([](Loan& m) { m.set_token(std::string(257, 't')); }, "token");
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
  Print(engine::WallTime(std::chrono::milliseconds(-1)), &message);
  CHECK(message.seconds() == -1);
  CHECK(message.nanos() == 999'000'000);
  const auto time = Parse(message, Field());
  REQUIRE_OK(time);
  CHECK(*time == engine::WallTime(std::chrono::milliseconds(-1)));
}

TEST_CASE("a deadline between daemons that has passed on the way is no mistake") {
  engine::StartRequest start = Parsed(Sample<v1::StartRequest>());
  start.deadline = std::chrono::milliseconds(-3);
  const engine::StartRequest read = Parsed(Printed<v1::StartRequest>(start));
  CHECK(read.deadline == std::chrono::milliseconds(0));
}

TEST_CASE("text that is no UTF-8, or longer than a reader takes, does not spoil a message") {
  engine::TransferInfo transfer = SampleTransfer();
  transfer.receipt.steps[0].step.from = "\xff";
  transfer.receipt.refused[0].detail = std::string(5000, 'd');
  transfer.receipt.evidence["\xfe"] = "\xfd";
  const auto message = Printed<v1::Transfer>(transfer);
  v1::Transfer read;
  REQUIRE(read.ParseFromString(message.SerializeAsString()));
  const engine::TransferInfo back = Parsed(read);
  CHECK(back.receipt.steps[0].step.from == "?");
  CHECK(back.receipt.refused[0].detail.size() == 4096);
  CHECK(back.receipt.evidence.at("?") == "?");
}
