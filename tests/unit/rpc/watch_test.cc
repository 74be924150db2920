// WatchTransfer: the newest state, never a queue of old ones, and an end in every case.
#include "onecopy/reasons.h"
#include "tests/unit/rpc/rpc_rig.h"
#include "tests/unit/rpc/samples.h"

namespace watch_test {
using namespace onecopy;
using namespace onecopy::rpc;

namespace {

TransferInfo At(uint64_t bytes_done, TransferState state = TransferState::kRunning) {
  TransferInfo transfer = SampleTransfer();
  transfer.state = state;
  transfer.bytes_done = bytes_done;
  return transfer;
}

// One client's watch.
struct Watch {
  explicit Watch(ApiRig& rig, const std::string& token, const std::string& id = "t-1")
      : context(ApiRig::Context(token)) {
    v1::WatchTransferRequest request;
    request.set_id(id);
    reader = rig.transfers->WatchTransfer(context.get(), request);
  }
  explicit Watch(ApiRig& rig) : Watch(rig, rig.token) {}

  // How far the transfer has come; no value at the end.
  std::optional<uint64_t> Next() {
    v1::Transfer transfer;
    if (!reader->Read(&transfer)) return std::nullopt;
    last = transfer.state();
    return transfer.bytes_done();
  }
  Status Finish() { return FromGrpc(reader->Finish()); }

  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientReader<v1::Transfer>> reader;
  v1::TransferState last = v1::TRANSFER_STATE_UNSPECIFIED;
};

void AwaitWatches(ApiRig& rig, size_t count) {
  rig.engine.Await([&rig, count] { return rig.api.watches.size() == count; });
}

void Tell(ApiRig& rig, const TransferInfo& transfer) {
  rig.engine.Run([&] {
    for (auto& [id, update] : rig.api.watches) update(transfer);
  });
}

}  // namespace

TEST_CASE("a watch tells the state at once, then each change, and ends after the last") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.first_update = At(1); });
  Watch watch(rig);
  CHECK(watch.Next() == 1);
  AwaitWatches(rig, 1);
  CHECK(rig.engine.Get<TransferId>([&] {
    return std::get<0>(rig.api.script.arguments<TransferId>());
  }) == TransferId("t-1"));
  CHECK(rig.engine.Get<Uid>([&] { return rig.api.who.uid; }) == Uid(1000));
  Tell(rig, At(2));
  CHECK(watch.Next() == 2);
  Tell(rig, At(3, TransferState::kUnconfirmed));  // not a last one
  CHECK(watch.Next() == 3);
  Tell(rig, At(4, TransferState::kSucceeded));
  CHECK(watch.Next() == 4);
  CHECK(watch.last == v1::SUCCEEDED);
  CHECK_FALSE(watch.Next().has_value());
  REQUIRE_OK(watch.Finish());
  AwaitWatches(rig, 0);  // the engine has been told
}

TEST_CASE("a transfer that has ended already is told once") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.first_update = At(9, TransferState::kFailed); });
  Watch watch(rig);
  CHECK(watch.Next() == 9);
  CHECK_FALSE(watch.Next().has_value());
  REQUIRE_OK(watch.Finish());
  AwaitWatches(rig, 0);
}

TEST_CASE("a transfer that there is not, and a call without a session, fail") {
  ApiRig rig;
  rig.engine.Run([&] {
    rig.api.watch_failure = Status(Code::kNotFound, reasons::kTransferNotFound, "no transfer t-1");
  });
  Watch unknown(rig);
  CHECK_FALSE(unknown.Next().has_value());
  CHECK(unknown.Finish().reason() == reasons::kTransferNotFound);
  Watch stranger(rig, "");
  CHECK_FALSE(stranger.Next().has_value());
  CHECK(stranger.Finish().reason() == reasons::kNoSession);
  Watch ended(rig, "00000000000000000000000000000000");
  CHECK_FALSE(ended.Next().has_value());
  CHECK(ended.Finish().reason() == reasons::kNoSession);
  Watch nameless(rig, rig.token, "");
  CHECK_FALSE(nameless.Next().has_value());
  CHECK(nameless.Finish().code() == Code::kInvalidArgument);
}

TEST_CASE("a client that cancels, or whose connection ends, ends its watch") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.first_update = At(1); });
  Watch watch(rig);
  CHECK(watch.Next() == 1);
  AwaitWatches(rig, 1);
  watch.context->TryCancel();
  AwaitWatches(rig, 0);
  CHECK(watch.Finish().code() == Code::kCancelled);

  auto context = rig.Context();
  auto channel = rig.Channel();
  auto stub = v1::TransferService::NewStub(channel);
  v1::WatchTransferRequest request;
  request.set_id("t-1");
  auto reader = stub->WatchTransfer(context.get(), request);
  v1::Transfer transfer;
  REQUIRE(reader->Read(&transfer));
  AwaitWatches(rig, 1);
  reader.reset();
  context.reset();  // and with it the call
  AwaitWatches(rig, 0);
}

TEST_CASE("a slow reader gets the newest state instead of all that it has missed") {
  constexpr uint64_t kStates = 150;
  ApiRig rig;
  Watch watch(rig);
  AwaitWatches(rig, 1);
  // Each state is so long that a few fill what a connection holds for one who does not read.
  TransferInfo transfer = At(0);
  for (int i = 0; i < 30; ++i) {
    transfer.receipt.evidence["key " + std::to_string(i)] = std::string(4000, 'e');
  }
  for (uint64_t i = 1; i <= kStates; ++i) {
    transfer.bytes_done = i;
    if (i == kStates) transfer.state = TransferState::kSucceeded;
    Tell(rig, transfer);
  }
  uint64_t received = 0;
  uint64_t last = 0;
  while (const auto done = watch.Next()) {
    ++received;
    CHECK(*done > last);
    last = *done;
  }
  REQUIRE_OK(watch.Finish());
  CHECK(last == kStates);
  CHECK(watch.last == v1::SUCCEEDED);
  CHECK(received < kStates / 2);
}

TEST_CASE("many transfers are watched over one connection, and other calls are not held up") {
  ApiRig rig;
  rig.engine.Run([&] {
    rig.api.first_update = At(1);
    rig.api.script.AnswerWith(SampleTransfer());
  });
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 0; i < 300; ++i) watches.push_back(std::make_unique<Watch>(rig));
  for (auto& watch : watches) REQUIRE(watch->Next() == 1);
  AwaitWatches(rig, watches.size());
  v1::Transfer transfer;
  v1::CancelTransferRequest request;
  request.set_id("t-1");
  const auto context = rig.Context();
  REQUIRE(rig.transfers->CancelTransfer(context.get(), request, &transfer).ok());
  Tell(rig, At(2, TransferState::kCancelled));
  for (auto& watch : watches) {
    CHECK(watch->Next() == 2);
    CHECK_FALSE(watch->Next().has_value());
    CHECK(watch->Finish().ok());
  }
  AwaitWatches(rig, 0);
}
}  // namespace watch_test
