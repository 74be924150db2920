// Values there and back, and how strictly messages are read.
#include "proto/codec/codec.h"

#include <limits>

#include "tests/support/catch.h"
#include "tests/support/sample_messages.h"

using namespace onecopy;
using codec::Field;
using codec::Strictness;
using onecopy::testing::Difference;
using onecopy::testing::FirstUnset;
using onecopy::testing::Sample;

namespace {

const std::string kTooLong(257, 'x');

template <typename Message>
auto ReadAs(const Message& message, Strictness strictness) {
  return codec::Parse(message, Field(strictness));
}
auto ReadAs(const v1::Capabilities& message, Strictness strictness) {
  return codec::Parse(message, "east", Field(strictness));
}

// What stays of a message whose every field says something: all of it, however it is read.
template <typename Message>
void CheckRoundTrip() {
  const Message message = Sample<Message>();
  INFO(message.GetTypeName());
  for (const Strictness strictness : {Strictness::kStrict, Strictness::kLenient}) {
    const auto value = ReadAs(message, strictness);
    REQUIRE_OK(value);
    Message printed;
    codec::Print(*value, &printed);
    CHECK(Difference(printed, message).empty());
  }
}

// A message that `spoil` has made bad is refused with the field's name, and read all the same where
// nothing is to be refused.
template <typename Message, typename Spoil>
void CheckRefused(Spoil spoil, const std::string& field) {
  Message message = Sample<Message>();
  spoil(message);
  const Status status = ReadAs(message, Strictness::kStrict).status();
  INFO(message.GetTypeName() << ": " << field << " -> " << status.ToString());
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().starts_with(field + ":"));
  CHECK(ReadAs(message, Strictness::kLenient).ok());
}

}  // namespace

TEST_CASE("every value keeps every field on its way through its message") {
  CheckRoundTrip<v1::Endpoint>();
  CheckRoundTrip<v1::Policy>();
  CheckRoundTrip<v1::Step>();
  CheckRoundTrip<v1::Refusal>();
  CheckRoundTrip<v1::Plan>();
  CheckRoundTrip<v1::Lane>();
  CheckRoundTrip<v1::Checksum>();
  CheckRoundTrip<v1::Attempt>();
  CheckRoundTrip<v1::Receipt>();
  CheckRoundTrip<v1::Transfer>();
  CheckRoundTrip<v1::CreateTransferRequest>();
  CheckRoundTrip<v1::OpenSeriesRequest>();
  CheckRoundTrip<v1::EndSeriesRequest>();
  CheckRoundTrip<v1::Buffer>();
  CheckRoundTrip<v1::CreateBufferRequest>();
  CheckRoundTrip<v1::SumBufferResponse>();
  CheckRoundTrip<v1::Arrival>();
  CheckRoundTrip<v1::SendMessageRequest>();
  CheckRoundTrip<v1::Grant>();
  CheckRoundTrip<v1::CreateGrantRequest>();
  CheckRoundTrip<v1::Capabilities>();
  CheckRoundTrip<v1::Probe>();
  CheckRoundTrip<v1::PathRate>();
  CheckRoundTrip<v1::Expiry>();
  CheckRoundTrip<v1::Node>();
}

TEST_CASE("every state and every part in a transfer survives, in both ways of reading") {
  for (const Strictness strictness : {Strictness::kStrict, Strictness::kLenient}) {
    for (int state = v1::PENDING; state <= v1::UNCONFIRMED; ++state) {
      for (int role = v1::DESTINATION; role <= v1::INITIATOR; ++role) {
        v1::Transfer message = Sample<v1::Transfer>();
        message.set_state(static_cast<v1::TransferState>(state));
        message.set_role(static_cast<v1::TransferRole>(role));
        const auto value = codec::Parse(message, Field(strictness));
        REQUIRE_OK(value);
        v1::Transfer printed;
        codec::Print(*value, &printed);
        CHECK(Difference(printed, message).empty());
      }
    }
    for (int state = v1::CONNECTED; state <= v1::DRAINING; ++state) {
      v1::Node message;
      message.set_state(static_cast<v1::NodeState>(state));
      const auto value = codec::Parse(message, Field(strictness));
      REQUIRE_OK(value);
      v1::Node printed;
      codec::Print(*value, &printed);
      CHECK(printed.state() == state);
    }
  }
}

TEST_CASE("states that nobody knows are refused by whoever trusts nobody, and else unknown") {
  v1::Transfer transfer = Sample<v1::Transfer>();
  for (const int state : {0, 99}) {
    transfer.set_state(static_cast<v1::TransferState>(state));
    transfer.set_role(static_cast<v1::TransferRole>(state));
    CHECK(codec::Parse(transfer, Field()).status().message().starts_with("state:"));
    const auto read = codec::Parse(transfer, Field(Strictness::kLenient));
    REQUIRE_OK(read);
    CHECK(read->state == TransferState::kUnknown);
    CHECK(read->role == TransferRole::kUnknown);
    CHECK_FALSE(IsFinal(read->state));
    v1::Transfer printed;
    codec::Print(*read, &printed);
    CHECK(printed.state() == v1::TRANSFER_STATE_UNSPECIFIED);
    CHECK(printed.role() == v1::TRANSFER_ROLE_UNSPECIFIED);

    v1::Node node = Sample<v1::Node>();
    node.set_state(static_cast<v1::NodeState>(state));
    CHECK(codec::Parse(node, Field()).status().message().starts_with("state:"));
    const auto seen = codec::Parse(node, Field(Strictness::kLenient));
    REQUIRE_OK(seen);
    CHECK(seen->state == NodeState::kUnknown);
  }
}

TEST_CASE("what is wrong is named by its field, and does not keep a client from reading the rest") {
  using Transfer = v1::Transfer;
  CheckRefused<Transfer>([](Transfer& m) { m.set_id(kTooLong); }, "id");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_source()->set_node(kTooLong); },
                         "source.node");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_create_time()->set_nanos(-1); },
                         "create_time");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_plan()->set_copies(7); }, "plan.copies");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_receipt()->set_copies(7); }, "receipt.copies");
  CheckRefused<Transfer>(
      [](Transfer& m) {
        m.mutable_receipt()->set_seconds(std::numeric_limits<double>::quiet_NaN());
      },
      "receipt.seconds");
  CheckRefused<Transfer>([](Transfer& m) { m.mutable_receipt()->set_bytes_per_second(-1); },
                         "receipt.bytes_per_second");
  CheckRefused<Transfer>(
      [](Transfer& m) { m.mutable_receipt()->mutable_lanes(1)->set_peer(kTooLong); },
      "receipt.lanes[1].peer");
  using Buffer = v1::Buffer;
  CheckRefused<Buffer>([](Buffer& m) { m.set_owner(kTooLong); }, "owner");
  using Grant = v1::Grant;
  CheckRefused<Grant>([](Grant& m) { m.set_to(kTooLong); }, "to");
  CheckRefused<Grant>([](Grant& m) { m.mutable_expire_time()->set_seconds(INT64_MAX); },
                      "expire_time");
  using Node = v1::Node;
  CheckRefused<Node>([](Node& m) { m.mutable_probes(0)->set_latency_seconds(-1); },
                     "probes[0].latency_seconds");
  CheckRefused<Node>([](Node& m) { m.mutable_path_rates(1)->set_path(kTooLong); },
                     "path_rates[1].path");
  CheckRefused<Node>(
      [](Node& m) { m.mutable_capabilities()->mutable_topology()->clear_distances(); },
      "capabilities.topology.distances");
  CheckRefused<Node>(
      [](Node& m) {
        auto& topology = *m.mutable_capabilities()->mutable_topology();
        while (topology.devices_size() < 257) *topology.add_devices() = topology.devices(0);
      },
      "capabilities.topology.devices");
  CheckRefused<Node>(
      [](Node& m) {
        m.mutable_capabilities()->mutable_topology()->mutable_devices(1)->set_kind(
            static_cast<v1::DeviceKind>(99));
      },
      "capabilities.topology.devices[1].kind");
  CheckRefused<Node>(
      [](Node& m) {
        auto* memories = m.mutable_capabilities()->mutable_memories();
        while (memories->size() <= 4096) memories->Add();
      },
      "capabilities.memories");
}

TEST_CASE("errors that others tell are bounded in each text and in all of them") {
  using Transfer = v1::Transfer;
  const auto refusals = [](Transfer& m, size_t count, size_t bytes) {
    v1::RefusalList list;
    for (size_t i = 0; i < count; ++i) list.add_refused()->set_detail(std::string(bytes, 'd'));
    m.mutable_error()->set_code(1);
    m.mutable_error()->clear_details();
    m.mutable_error()->add_details()->PackFrom(list);
  };
  CheckRefused<Transfer>(
      [](Transfer& m) { m.mutable_error()->set_message(std::string(4097, 'x')); }, "error.message");
  CheckRefused<Transfer>([&](Transfer& m) { refusals(m, 1, 4097); }, "error.refused");
  CheckRefused<Transfer>([&](Transfer& m) { refusals(m, 80, 4000); }, "error.details");
  CheckRefused<Transfer>(
      [](Transfer& m) {
        for (int i = 0; i < 20; ++i) m.mutable_error()->add_details();
      },
      "error.details");
  CheckRefused<v1::EndSeriesRequest>(
      [](v1::EndSeriesRequest& m) { m.mutable_failure()->set_message(std::string(4097, 'x')); },
      "failure.message");
}

TEST_CASE("what is said of one transfer is bounded, however it is spread") {
  using Transfer = v1::Transfer;
  CheckRefused<Transfer>(
      [](Transfer& m) {
        for (int i = 0; i < 80; ++i) {
          m.mutable_plan()->add_refused()->set_detail(std::string(4000, 'd'));
        }
      },
      "plan.refused[66].detail");
  CheckRefused<Transfer>(
      [](Transfer& m) {
        for (int i = 0; i < 3000; ++i) m.mutable_receipt()->add_lanes()->set_peer("1.1.1.1");
        for (int i = 0; i < 3000; ++i) m.mutable_receipt()->add_attempts();
      },
      "receipt.attempts");
  // Of a message with many, all of them together.
  v1::ListTransfersResponse list;
  for (int i = 0; i < 40; ++i) {
    v1::Transfer& one = *list.add_transfers() = Sample<Transfer>();
    for (int k = 0; k < 30; ++k)
      one.mutable_plan()->add_refused()->set_detail(std::string(4000, 'd'));
  }
  const auto all =
      codec::ParseEach(list.transfers(), Field() / "transfers",
                       [](const Transfer& one, const Field& at) { return codec::Parse(one, at); });
  CHECK(all.status().message().starts_with("transfers[34]."));
}

TEST_CASE("what has gathered too much is shortened until it is read strictly") {
  TransferInfo info = *codec::Parse(Sample<v1::Transfer>(), Field());
  const Refusal refusal{"tcp-direct", "R", std::string(4000, 'd'), std::string(4000, 'r')};
  info.plan->refused.assign(500, refusal);
  info.receipt.refused.assign(500, refusal);
  info.receipt.lanes.assign(2000, {"lo", "127.0.0.1:7702", 5});
  info.receipt.attempts.assign(2000, {"tcp-direct", "LINK_DOWN", 7});
  info.error = Status(Code::kUnavailable, "R", "m").WithRefusals(std::vector(500, refusal));
  for (int i = 0; i < 20; ++i) {
    info.receipt.evidence[std::to_string(i)] = std::string(4000, 'e');
  }
  v1::Transfer printed;
  codec::Print(info, &printed);
  CHECK(printed.ByteSizeLong() < codec::kMaxTransferText);
  const auto read = codec::Parse(printed, Field());
  REQUIRE_OK(read);
  CHECK(read->plan->refused.size() >= 100);
  CHECK(read->plan->refused.front().path == "tcp-direct");
  CHECK(read->error.refusals().size() >= 100);
}

TEST_CASE("distances that are not there are unknown ones") {
  v1::Node node = Sample<v1::Node>();
  node.mutable_capabilities()->mutable_topology()->clear_distances();
  const auto read = codec::Parse(node, Field(Strictness::kLenient));
  REQUIRE_OK(read);
  REQUIRE(read->capabilities.has_value());
  CHECK(read->capabilities->topology.distances == std::vector<Distance>{Distance::kUnknown});
  CHECK(read->capabilities->node == node.name());
}

TEST_CASE("what is absent stays absent") {
  v1::CreateTransferRequest asked;
  asked.mutable_source();
  asked.mutable_destination();
  const auto request = codec::Parse(asked, Field());
  REQUIRE_OK(request);
  CHECK_FALSE(request->source.offset_bytes.has_value());
  CHECK_FALSE(request->policy.at_most_copies.has_value());
  CHECK_FALSE(request->deadline.has_value());
  CHECK(request->ranges.empty());
  v1::CreateTransferRequest printed;
  codec::Print(*request, &printed);
  CHECK_FALSE(printed.has_source_ranges());
  CHECK_FALSE(printed.has_deadline());

  v1::Node node;
  codec::Print(NodeInfo(), &node);
  CHECK_FALSE(node.has_capabilities());
  v1::Transfer transfer;
  codec::Print(TransferInfo(), &transfer);
  CHECK_FALSE(transfer.has_plan());
  CHECK_FALSE(transfer.has_error());
  CHECK_FALSE(transfer.has_end_time());
}

TEST_CASE("ranges are pairs, and columns of unlike lengths are refused") {
  using Request = v1::CreateTransferRequest;
  const auto request = codec::Parse(Sample<Request>(), Field());
  REQUIRE_OK(request);
  CHECK(request->ranges == std::vector<RangePair>{{{100, 4, 16, 3}, {500, 6, 10, 2}, 1, 1},
                                                  {{300, 8, 24, 2}, {900, 4, 12, 4}, 0, 1}});
  const auto refused = [](auto spoil) {
    Request message = Sample<Request>();
    spoil(message);
    return codec::Parse(message, Field()).status();
  };
  CHECK(
      refused([](Request& m) { m.clear_source_ranges(); }).message().starts_with("source_ranges:"));
  CHECK(refused([](Request& m) { m.mutable_source_ranges()->add_count(1); })
            .message()
            .starts_with("source_ranges.count:"));
  CHECK(refused([](Request& m) { m.mutable_source_ranges()->Clear(); }).reason() ==
        reasons::kSizeMismatch);
  CHECK(refused([](Request& m) {
          m.mutable_source_ranges()->Clear();
          m.mutable_destination_ranges()->Clear();
        }).reason() == reasons::kBadArgument);
  CHECK(refused([](Request& m) { m.mutable_source_ranges()->add_buffer(0); })
            .message()
            .starts_with("source_ranges.buffer:"));
  CHECK(refused([](Request& m) { m.mutable_destination_ranges()->clear_bytes(); })
            .message()
            .starts_with("destination_ranges.bytes:"));
  CHECK(refused([](Request& m) { m.set_asked_ranges(1); }).message().starts_with("asked_ranges:"));
  CHECK(refused([](Request& m) { m.set_asked_ranges(kMaxRanges + 1); })
            .message()
            .starts_with("asked_ranges:"));
  CHECK(refused([](Request& m) {
          while (m.more_sources_size() < static_cast<int>(kMaxBuffers)) m.add_more_sources();
        })
            .message()
            .starts_with("more_sources:"));
}

TEST_CASE("a column in which all ranges are alike has one entry") {
  TransferRequest request;
  for (uint32_t i = 0; i < 1000; ++i) request.ranges.push_back({{i * 64, 32}, {i * 32, 32}, 0, 7});
  v1::CreateTransferRequest message;
  codec::Print(request, &message);
  CHECK(message.source_ranges().offset_bytes_size() == 1000);
  CHECK(message.source_ranges().bytes_size() == 1);
  CHECK(message.source_ranges().count_size() == 0);
  CHECK(message.source_ranges().buffer_size() == 0);
  CHECK(message.destination_ranges().buffer_size() == 1);
  message.mutable_source();
  message.mutable_destination();
  const auto read = codec::Parse(message, Field());
  REQUIRE_OK(read);
  // Ranges of one length are read as columns, too, and printed from them as before.
  REQUIRE(read->equal_ranges != nullptr);
  CHECK(read->ranges.empty());
  CHECK(read->equal_ranges->bytes == 32);
  CHECK(read->equal_ranges->sources[999] == 999 * 64);
  CHECK(read->equal_ranges->destinations[999] == 999 * 32);
  CHECK(read->equal_ranges->source_buffers.empty());
  CHECK(read->equal_ranges->destination_buffers == std::vector<uint32_t>(1000, 7));
  v1::CreateTransferRequest again;
  codec::Print(*read, &again);
  CHECK(again.source_ranges().SerializeAsString() == message.source_ranges().SerializeAsString());
  CHECK(again.destination_ranges().SerializeAsString() ==
        message.destination_ranges().SerializeAsString());
  // As a writer that does not know of it has them.
  for (int i = 1; i < 1000; ++i) message.mutable_source_ranges()->add_bytes(32);
  const auto whole = codec::Parse(message, Field());
  REQUIRE_OK(whole);
  CHECK(whole->ranges == request.ranges);
}

TEST_CASE("text that is no UTF-8, or longer than a reader takes, does not spoil a message") {
  TransferInfo transfer;
  transfer.receipt.steps = {{{"east", "\xff", "host", "cpu"}, 1}};
  transfer.receipt.refused = {{"local", "SLOWER", std::string(5000, 'd'), ""}};
  transfer.receipt.evidence["\xfe"] = "\xfd";
  transfer.waits_for = std::string(5000, 'w');
  transfer.state = TransferState::kRunning;
  v1::Transfer message;
  codec::Print(transfer, &message);
  v1::Transfer read;
  REQUIRE(read.ParseFromString(message.SerializeAsString()));
  const auto back = codec::Parse(read, Field());
  REQUIRE_OK(back);
  CHECK(back->receipt.steps[0].step.from == "?");
  CHECK(back->receipt.refused[0].detail.size() == 4096);
  CHECK(back->receipt.evidence.at("?") == "?");
}

TEST_CASE("how a request shares with others crosses the wire") {
  for (const Priority priority : {Priority::kLow, Priority::kNormal, Priority::kHigh}) {
    const Pacing sent{uint64_t{5} << 20, priority};
    v1::Pacing message;
    codec::Print(sent, &message);
    const auto read = codec::Parse(message, Field());
    REQUIRE_OK(read);
    CHECK(*read == sent);
  }
  CHECK(*codec::Parse(v1::Pacing(), Field()) == Pacing());
}

TEST_CASE("a limit below the least and an unknown priority are refused") {
  v1::Pacing slow;
  slow.set_rate_limit_bytes_per_second(1);
  CHECK(codec::Parse(slow, Field()).status().message().find("at least 1048576") !=
        std::string::npos);
  v1::Pacing strange;
  strange.set_priority(static_cast<v1::Priority>(9));
  CHECK_FALSE(codec::Parse(strange, Field()).ok());
}
