// Every kind of bad input, of clients and of peers, is refused with the name of its field.
#include "daemon/rpc/convert/peer.h"

#include "onecopy/reasons.h"
#include "tests/unit/rpc/samples.h"

namespace convert_refusals_test {
using namespace onecopy;
using namespace onecopy::rpc;
using onecopy::testing::Difference;
using onecopy::testing::FirstUnset;

namespace {

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
  CheckRefused<Register>(
      [](Register& m) {
        m.mutable_cuda_vmm()->set_fd_handle(1);
        m.mutable_cuda_vmm()->add_more();
      },
      "cuda_vmm.more.fd_handle", reasons::kBadHandle);
  CheckRefused<Register>(
      [](Register& m) {
        m.mutable_cuda_vmm()->set_fd_handle(1);
        for (int i = 0; i < 512; ++i) m.mutable_cuda_vmm()->add_more()->set_fd_handle(1);
      },
      "cuda_vmm.more");
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
  CheckRefused<v1::FinishRequest>(
      [](v1::FinishRequest& m) { m.mutable_status()->set_message(std::string(4097, 'x')); },
      "status.message");
  CheckRefused<v1::ReportRequest>(
      [](v1::ReportRequest& m) {
        v1::Transfer& said = *m.mutable_transfer();
        for (int i = 0; i < 80; ++i)
          said.mutable_plan()->add_refused()->set_detail(std::string(4000, 'd'));
      },
      "transfer.plan.refused[66].detail");
  CheckRefused<v1::PrepareRequest>(
      [](v1::PrepareRequest& m) {
        v1::Transfer& said = *m.mutable_transfer();
        for (int i = 0; i < 80; ++i)
          said.mutable_plan()->add_refused()->set_detail(std::string(4000, 'd'));
      },
      "transfer.plan.refused[66].detail");
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
  CheckRefused<Reserve>(
      [](Reserve& m) {
        m.clear_source();
        m.clear_parts();
      },
      "source");
  using Start = v1::StartRequest;
  CheckRefused<Start>(
      [](Start& m) {
        m.clear_reservation();
        m.clear_parts();
      },
      "reservation");
  CheckRefused<Start>([](Start& m) { m.clear_destination(); }, "destination");
  CheckRefused<Start>([](Start& m) { m.mutable_reservation()->set_ticket(kLongName); },
                      "reservation.ticket");
  using Connect = v1::ConnectRequest;
  CheckRefused<Connect>([](Connect& m) { m.set_offer(std::string(65537, 'o')); }, "offer");
  using Prepare = v1::PrepareRequest;
  CheckRefused<Prepare>([](Prepare& m) { m.clear_transfer(); }, "transfer");
  CheckRefused<Prepare>([](Prepare& m) { m.clear_transfer_id(); }, "transfer_id");
  CheckRefused<Prepare>([](Prepare& m) { m.add_nics(kLongName); }, "nics");
  CheckRefused<Prepare>(
      [](Prepare& m) {
        for (int i = 0; i < 257; ++i) m.add_nics("mlx5_0");
      },
      "nics");
  using Finish = v1::FinishRequest;
  CheckRefused<Finish>([](Finish& m) { m.clear_transfer_id(); }, "transfer_id");
  using Report = v1::ReportRequest;
  CheckRefused<Report>([](Report& m) { m.clear_transfer(); }, "transfer");
  using Query = v1::QueryTransferRequest;
  CheckRefused<Query>([](Query& m) { m.clear_transfer_id(); }, "transfer_id");
  using OpenRange = v1::OpenRangeRequest;
  CheckRefused<OpenRange>([](OpenRange& m) { m.clear_transfer_id(); }, "transfer_id");
  CheckRefused<OpenRange>([](OpenRange& m) { m.set_ticket(std::string(257, 't')); }, "ticket");
  using OpenPush = v1::OpenPushRequest;
  CheckRefused<OpenPush>([](OpenPush& m) { m.clear_transfer_id(); }, "transfer_id");
  CheckRefused<OpenPush>([](OpenPush& m) { m.clear_reservation(); }, "reservation");
  CheckRefused<OpenPush>([](OpenPush& m) { m.clear_destination(); }, "destination");
  CheckRefused<OpenPush>(
      [](OpenPush& m) { m.mutable_reservation()->set_ticket(std::string(257, 't')); },
      "reservation.ticket");
  using Pushing = v1::OpenPushResponse;
  CheckRefused<Pushing>([](Pushing& m) { m.set_registration(std::string(257, 'r')); },
                        "registration");
  CheckRefused<Pushing>([](Pushing& m) { m.set_key(std::string(257, 'k')); }, "key");
  using Opened = v1::OpenRangeResponse;
  CheckRefused<Opened>([](Opened& m) { m.set_key(std::string(65537, 'k')); }, "key");
  CheckRefused<Opened>(
      [](Opened& m) {
        while (m.fill_steps_size() < 5) m.add_fill_steps();
      },
      "fill_steps");
  CheckRefused<Opened>([](Opened& m) { m.add_fill_steps()->set_by(std::string(257, 'b')); },
                       "fill_steps.by");
  using ImportMemory = v1::ImportMemoryRequest;
  CheckRefused<ImportMemory>([](ImportMemory& m) { m.clear_transfer_id(); }, "transfer_id");
  using MemoryExport = v1::MemoryExport;
  CheckRefused<MemoryExport>([](MemoryExport& m) { m.clear_loan(); }, "loan");
  CheckRefused<MemoryExport>([](MemoryExport& m) { m.set_address(std::string(257, 'a')); },
                             "address");
  CheckRefused<MemoryExport>([](MemoryExport& m) { m.set_token(std::string(257, 't')); }, "token");
}

TEST_CASE("ranges of a request are read as pairs, and columns that do not fit are refused") {
  using Create = v1::CreateTransferRequest;
  const auto [request, ranges] = Parsed(Sample<Create>());
  CHECK(request.ranges.empty());
  CHECK(ranges.asked == 2);
  REQUIRE(ranges.groups.size() == 2);
  CHECK(ranges.groups[0].source == 1);
  CHECK(ranges.groups[0].destination == 1);
  CHECK(ranges.groups[0].ranges->source.extent() == ByteRange{100, 36});
  CHECK(ranges.groups[1].source == 0);
  CHECK(ranges.groups[1].ranges->source.bytes() == 16);
  REQUIRE(ranges.groups[1].ranges->destination.size() == 1);
  CHECK(ranges.groups[1].ranges->destination.piece(0) == StridedRange{0, 4, 12, 4});
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
  CHECK(refused([](Create& m) { m.mutable_source_ranges()->set_buffer(0, 9); }) ==
        reasons::kBadArgument);
  CHECK(refused([](Create& m) { m.mutable_destination_ranges()->set_offset_bytes(1, 505); }) ==
        reasons::kRangesOverlap);
  CHECK(refused([](Create& m) { m.mutable_source_ranges()->set_offset_bytes(0, ~uint64_t{0}); }) ==
        reasons::kRangeOutOfBuffer);
  CHECK(refused([](Create& m) { m.mutable_source_ranges()->Clear(); }) == reasons::kSizeMismatch);
  v1::StartRequest start = Sample<v1::StartRequest>();
  start.mutable_source_ranges()->set_count(0, 4);
  CHECK(Parse(start).status().reason() == reasons::kSizeMismatch);
}

TEST_CASE("parts of a transfer of several buffers are checked, whoever says that they are sound") {
  using Start = v1::StartRequest;
  REQUIRE(Sample<Start>().parts_size() > 1);
  CheckRefused<Start>([](Start& m) { m.mutable_parts(1)->set_destination(7); }, "parts");
  CheckRefused<Start>(
      [](Start& m) {
        auto* offsets = m.mutable_parts(1)->mutable_source_ranges()->mutable_offset_bytes();
        while (offsets->size() <= static_cast<int>(kMaxRanges)) offsets->Add(0);
      },
      "parts[1].source_ranges");
  CheckRefused<Start>(
      [](Start& m) {
        while (m.parts_size() <= static_cast<int>(kMaxBuffers)) m.add_parts();
      },
      "parts");
  // Two of them into one destination.
  Start overlapping = Sample<Start>();
  for (auto& part : *overlapping.mutable_parts()) part.set_destination(0);
  CHECK(Parse(overlapping).status().reason() == reasons::kRangesOverlap);
  using Reserve = v1::ReserveRequest;
  CheckRefused<Reserve>([](Reserve& m) { m.mutable_parts(0)->mutable_ranges()->add_count(1); },
                        "parts[0].ranges.count");
}
}  // namespace convert_refusals_test
