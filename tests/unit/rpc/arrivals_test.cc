// ArrivalService: a stream that leaves nothing out, is held up by a client that does not read, and
// ends in every case.
#include "daemon/rpc/convert/peer.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/arrival.grpc.pb.h"
#include "tests/support/sample_messages.h"
#include "tests/unit/rpc/api_calls.h"

namespace arrivals_test {
using namespace onecopy;
using namespace onecopy::rpc;

namespace {

using ArrivalStub = v1::ArrivalService::Stub;

Arrival Told(uint64_t sequence, const std::string& message = {}) {
  Arrival arrival;
  arrival.buffer = "a";
  arrival.sequence = sequence;
  arrival.message = message;
  return arrival;
}

struct ArrivalWatching {
  ArrivalWatching(ApiRig& rig, const std::string& token, const std::string& buffer = "a")
      : stub(v1::ArrivalService::NewStub(rig.channel)), context(ApiRig::Context(token)) {
    v1::WatchArrivalsRequest request;
    request.set_buffer(buffer);
    reader = stub->WatchArrivals(context.get(), request);
  }
  explicit ArrivalWatching(ApiRig& rig) : ArrivalWatching(rig, rig.token) {
    REQUIRE(reader->Read(&answer));  // it watches now
  }
  bool Next() { return reader->Read(&answer); }
  Status Finish() { return FromGrpc(reader->Finish()); }

  std::unique_ptr<ArrivalStub> stub;
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientReader<v1::WatchArrivalsResponse>> reader;
  v1::WatchArrivalsResponse answer;
};

void AwaitArrivalWatches(ApiRig& rig, size_t count) {
  rig.engine.Await([&rig, count] { return rig.api.arrival_watches.size() == count; });
}

// Has the engine tell this next.
void TellNext(ApiRig& rig, engine::ArrivalsTold told) {
  rig.engine.Run([&] {
    rig.api.told = std::move(told);
    for (auto& [id, news] : rig.api.arrival_watches) news();
  });
}

}  // namespace

TEST_CASE("a watch says at once that it watches, then each arrival, and what was missed") {
  ApiRig rig;
  ArrivalWatching watch(rig);
  CHECK(watch.answer.watch() == 1);
  CHECK(watch.answer.arrivals_size() == 0);
  CHECK(rig.engine.Get<std::string>(
            [&] { return std::get<0>(rig.api.script.arguments<std::string>()); }) == "a");
  const std::string binary("\0\xff", 2);
  TellNext(rig, {{{Told(1, binary), Told(2)}, 0}, {}});
  REQUIRE(watch.Next());
  REQUIRE(watch.answer.arrivals_size() == 2);
  CHECK(watch.answer.watch() == 1);
  CHECK(watch.answer.arrivals(0).message() == binary);
  CHECK(watch.answer.arrivals(1).sequence() == 2);
  TellNext(rig, {{{}, 7}, {}});
  REQUIRE(watch.Next());
  CHECK(watch.answer.missed() == 7);
  TellNext(rig, {{}, Status(Code::kNotFound, reasons::kBufferNotFound, "a was removed")});
  CHECK_FALSE(watch.Next());
  CHECK(watch.Finish().reason() == reasons::kBufferNotFound);
  AwaitArrivalWatches(rig, 0);
}

TEST_CASE("what was told before the end is sent before it") {
  ApiRig rig;
  const Status gone(Code::kNotFound, reasons::kBufferNotFound, "a was removed");
  rig.engine.Run([&] {
    rig.api.on_take = [&gone, taken = 0]() mutable -> engine::ArrivalsTold {
      if (++taken == 1) return {};
      if (taken == 2) return {{{Told(1)}, 0}, gone};
      return {{}, gone};
    };
  });
  ArrivalWatching watch(rig);
  REQUIRE(watch.Next());
  CHECK(watch.answer.arrivals_size() == 1);
  CHECK_FALSE(watch.Next());
  CHECK(watch.Finish().reason() == reasons::kBufferNotFound);
}

TEST_CASE("a client that does not read holds its own watch up, and misses nothing") {
  constexpr uint64_t kBatches = 400;
  constexpr size_t kOfBatch = 16;
  ApiRig rig;
  // As an engine that always has more.
  uint64_t next = 0;
  bool over = false;
  rig.engine.Run([&] {
    rig.api.on_take = [&]() -> engine::ArrivalsTold {
      engine::ArrivalsTold told;
      if (next == kBatches * kOfBatch) {
        over = true;
        told.end = Status(Code::kNotFound, reasons::kBufferNotFound, "over");
        return told;
      }
      for (size_t i = 0; i < kOfBatch; ++i) {
        told.batch.arrivals.push_back(Told(++next, std::string(4096, 'm')));
      }
      return told;
    };
  });
  ArrivalWatching watch(rig, rig.token);
  // It comes to rest far from the end: until nothing changes over many calls of another kind.
  uint64_t seen = 0;
  for (int still = 0; still < 200;) {
    v1::AcknowledgeArrivalsRequest request;
    google::protobuf::Empty reply;
    const auto context = rig.Context();
    REQUIRE(watch.stub->AcknowledgeArrivals(context.get(), request, &reply).ok());
    const uint64_t now = rig.engine.Get<uint64_t>([&] { return next; });
    still = now == seen ? still + 1 : 0;
    seen = now;
  }
  CHECK(seen < kBatches * kOfBatch);
  uint64_t received = 0;
  while (watch.Next()) {
    for (const v1::Arrival& arrival : watch.answer.arrivals()) {
      REQUIRE(arrival.sequence() == ++received);
    }
  }
  CHECK(received == kBatches * kOfBatch);
  CHECK(watch.Finish().reason() == reasons::kBufferNotFound);
  CHECK(rig.engine.Get<bool>([&] { return over; }));
}

TEST_CASE("a watch that the engine refuses, and one without a session, fail") {
  ApiRig rig;
  rig.engine.Run(
      [&] { rig.api.watch_failure = Status(Code::kPermissionDenied, reasons::kNotOwner, "no"); });
  ArrivalWatching refused(rig, rig.token);
  CHECK_FALSE(refused.Next());
  CHECK(refused.Finish().reason() == reasons::kNotOwner);
  for (const std::string& token : {std::string(), std::string(32, '0')}) {
    ArrivalWatching stranger(rig, token);
    CHECK_FALSE(stranger.Next());
    CHECK(stranger.Finish().reason() == reasons::kNoSession);
  }
  ArrivalWatching nonsense(rig, rig.token, std::string(300, 'x'));
  CHECK_FALSE(nonsense.Next());
  CHECK(nonsense.Finish().code() == Code::kInvalidArgument);
}

TEST_CASE("a client that cancels its watch, or goes, ends it") {
  ApiRig rig;
  ArrivalWatching watch(rig);
  AwaitArrivalWatches(rig, 1);
  watch.context->TryCancel();
  AwaitArrivalWatches(rig, 0);
  CHECK(watch.Finish().code() == Code::kCancelled);
  {
    const auto channel = rig.Channel();
    const auto stub = v1::ArrivalService::NewStub(channel);
    const auto context = rig.Context();
    const auto reader = stub->WatchArrivals(context.get(), {});
    v1::WatchArrivalsResponse answer;
    REQUIRE(reader->Read(&answer));
    AwaitArrivalWatches(rig, 1);
  }
  AwaitArrivalWatches(rig, 0);
}

TEST_CASE("a daemon that ends breaks watches off") {
  ApiRig rig;
  ArrivalWatching watch(rig);
  rig.server->Stop();
  CHECK_FALSE(watch.Next());
  CHECK(watch.Finish().code() == Code::kUnavailable);
}

TEST_CASE("acknowledging and telling reach the engine as they were asked") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.script.AnswerOk(); });
  const auto stub = v1::ArrivalService::NewStub(rig.channel);
  v1::AcknowledgeArrivalsRequest acknowledge;
  acknowledge.set_watch(7);
  acknowledge.set_count(9);
  REQUIRE_OK(
      Ask<google::protobuf::Empty>(rig, *stub, &ArrivalStub::AcknowledgeArrivals, acknowledge));
  CHECK(Asked<uint64_t, uint64_t>(rig, "AcknowledgeArrivals") ==
        std::tuple<uint64_t, uint64_t>(7, 9));
  v1::SendMessageRequest send;
  send.mutable_destination()->set_node("west");
  send.mutable_destination()->set_buffer("b");
  send.set_message(std::string(4096, '\xff'));
  send.set_request_id("id");
  REQUIRE_OK(Ask<google::protobuf::Empty>(rig, *stub, &ArrivalStub::SendMessage, send));
  const auto [message] = Asked<MessageRequest>(rig, "SendMessage");
  CHECK(message.destination == Endpoint{"west", "b"});
  CHECK(message.message == send.message());
  CHECK(message.request_id == "id");
}

TEST_CASE("a message that is too long, or none, or for nobody, goes nowhere") {
  ApiRig rig;
  const auto stub = v1::ArrivalService::NewStub(rig.channel);
  const size_t before = rig.engine.Get<size_t>([&] { return rig.api.script.count(); });
  v1::SendMessageRequest good;
  good.mutable_destination()->set_buffer("b");
  good.set_message("m");
  v1::SendMessageRequest long_one = good;
  long_one.set_message(std::string(4097, 'm'));
  v1::SendMessageRequest empty = good;
  empty.clear_message();
  v1::SendMessageRequest nobody = good;
  nobody.clear_destination();
  v1::SendMessageRequest id = good;
  id.set_request_id(std::string(65, 'i'));
  for (const auto& [bad, field] :
       {std::pair(&long_one, "message"), std::pair(&empty, "message"),
        std::pair(&nobody, "destination"), std::pair(&id, "request_id")}) {
    const auto status =
        Ask<google::protobuf::Empty>(rig, *stub, &ArrivalStub::SendMessage, *bad).status();
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().starts_with(field));
  }
  v1::CreateTransferRequest transfer;
  transfer.mutable_source()->set_buffer("a");
  transfer.mutable_destination()->set_buffer("b");
  transfer.set_message(std::string(4097, 'm'));
  const auto refused =
      Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::CreateTransfer, transfer).status();
  CHECK(refused.reason() == reasons::kBadSize);
  CHECK(refused.message().find("at most 4096") != std::string::npos);
  CHECK(rig.engine.Get<size_t>([&] { return rig.api.script.count(); }) == before);
}

TEST_CASE("what one peer says to another about messages survives, and is read strictly") {
  for (const auto& [message, ok] :
       {std::pair(std::string(4096, '\0'), true), std::pair(std::string(4097, 'x'), false),
        std::pair(std::string(), false)}) {
    auto sent = testing::Sample<v1::SendPeerMessageRequest>();
    sent.set_uid_namespaces("pid1");
    sent.mutable_destination()->clear_file();
    sent.set_message(message);
    const auto parsed = Parse(sent);
    INFO(parsed.status().ToString());
    CHECK(parsed.ok() == ok);
    if (!parsed.ok()) continue;
    v1::SendPeerMessageRequest printed;
    Print(*parsed, &printed);
    CHECK(testing::Difference(printed, sent).empty());
    CHECK_FALSE(parsed->administrator);
  }
  v1::StartRequest start;
  start.mutable_reservation();
  start.mutable_destination();
  start.set_message(std::string(4097, 'x'));
  CHECK(Parse(start).status().message().starts_with("message:"));
}
}  // namespace arrivals_test
