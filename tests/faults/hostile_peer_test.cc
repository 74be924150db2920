// What a peer in good standing can get out of a daemon beyond what it was given, speaking
// PeerService itself.
#include "tests/faults/hostile_peer.h"

#include <functional>

#include "tests/cluster/pair.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace hostile_peer_test {
namespace {

namespace v1 = onecopy::v1;
using namespace onecopy::testing;

constexpr uint32_t kUid = 1001;
constexpr uint64_t kBytes = 65'536;
constexpr char kMallory[] = "1001@mallory";

// On east, root's: "secret", of which mallory may read one byte, "other", of which none, and
// "loot", which it may write.
struct Besieged {
  Node east{"east"};
  HostilePeer mallory{east};
  const std::string secret = Payload(kBytes, 11);
  const Kept kept{east};

  Besieged() {
    for (const char* name : {"secret", "other", "loot"}) {
      east.Do({"buffer", "create", name, "--size", std::to_string(kBytes), "--memory", "host"});
    }
    east.Do({"cp", "-", "secret"}, secret);
    east.Do({"cp", "-", "other"}, Payload(kBytes, 12));
    east.Do({"grant", "add", "secret@7+1", "--to", kMallory, "--read"});
    east.Do({"grant", "add", "loot", "--to", kMallory, "--write"});
  }

  v1::ReserveResponse OneByte() {
    v1::ReserveResponse reservation;
    const grpc::Status answered = mallory.Reserve(kUid, {"secret", 7, 1}, "east", &reservation);
    INFO(answered.error_message());
    REQUIRE(answered.ok());
    REQUIRE(reservation.ticket() != "");
    return reservation;
  }

  // Spends the ticket, whatever was made of the reservation around it.
  void Spend(const v1::ReserveResponse& reservation, const std::string& path = {}) {
    v1::Transfer started;
    const grpc::Status answered = mallory.Start(kUid, reservation, "loot", &started, path);
    INFO(answered.error_message());
    if (answered.ok()) mallory.WaitForEnd(started.id());
  }

  // Nothing has come out but, at most, the byte that was granted.
  void CheckHeld() {
    REQUIRE(east.process().running());
    const std::string loot = Contents(east, "loot");
    const bool first_is_granted = loot[0] == '\0' || loot[0] == secret[7];
    CHECK(first_is_granted);
    CHECK(loot.find_first_not_of('\0', 1) == std::string::npos);
    kept.CheckUnchanged();
    CheckServes(east);
  }
};

}  // namespace

TEST_CASE("a ticket for one byte reads no other, whatever its holder says of it") {
  const std::string path = GENERATE("", "local", "peer-bounce");
  CAPTURE(path);
  struct Lie {
    const char* of;
    std::function<void(v1::ReserveResponse&)> tell;
  };
  const auto range = [](uint64_t offset, uint64_t bytes) {
    return [=](v1::ReserveResponse& reservation) {
      reservation.mutable_source()->set_offset_bytes(offset);
      reservation.mutable_source()->set_bytes(bytes);
    };
  };
  const std::vector<Lie> lies = {
      {"the whole buffer", range(0, kBytes)},
      {"another byte", range(8, 1)},
      {"another buffer",
       [&](v1::ReserveResponse& reservation) {
         reservation.mutable_source()->set_buffer("other");
         range(0, kBytes)(reservation);
       }},
      {"what lies behind the buffer in the daemon's own memory", range(kBytes, 4096)},
      {"an address where nothing is", range(uint64_t{1} << 46, 4096)},
      {"an offset that comes round", range(~uint64_t{0} - 4095, 4096)},
      {"another kind of memory",
       [](v1::ReserveResponse& reservation) {
         reservation.set_memory("cuda");
         reservation.set_device("GPU-00000000-0000-0000-0000-000000000000");
       }},
  };
  Besieged besieged;
  for (const Lie& lie : lies) {
    INFO(lie.of);
    v1::ReserveResponse reservation = besieged.OneByte();
    lie.tell(reservation);
    besieged.Spend(reservation, path);
    besieged.CheckHeld();
  }
}

TEST_CASE("ranges that a peer puts beside a ticket do not widen it") {
  Besieged besieged;
  const v1::ReserveResponse truth = besieged.OneByte();
  const auto [offset, claimed] =
      GENERATE(table<uint64_t, uint64_t>({{0, 4096}, {7, 1}, {1, uint64_t{1} << 45}}));
  CAPTURE(offset, claimed);
  v1::StartRequest request;
  request.set_transfer_id(besieged.mallory.transfer_id());
  request.set_uid(kUid);
  *request.mutable_reservation() = truth;
  request.mutable_reservation()->mutable_source()->set_offset_bytes(0);
  request.mutable_reservation()->mutable_source()->set_bytes(claimed);
  request.mutable_destination()->set_buffer("loot");
  // Two pieces that span as much as is claimed; 16 bytes of each, or one byte where there is no
  // room for two.
  const uint64_t piece = claimed > 32 ? 16 : 1;
  for (v1::Ranges* ranges :
       {request.mutable_source_ranges(), request.mutable_destination_ranges()}) {
    const bool source = ranges == request.mutable_source_ranges();
    ranges->add_offset_bytes(0);
    ranges->add_bytes(piece);
    if (claimed <= 32) continue;
    ranges->add_offset_bytes(source ? claimed - piece : piece);
    ranges->add_bytes(piece);
  }
  request.set_ranges(claimed > 32 ? 2 : 1);
  v1::Transfer started;
  const grpc::Status answered =
      besieged.mallory.stub().Start(besieged.mallory.Context().get(), request, &started);
  INFO(answered.error_message());
  if (answered.ok()) besieged.mallory.WaitForEnd(started.id());
  besieged.CheckHeld();
}

TEST_CASE("a ticket serves the node and the user that it was given to") {
  Besieged besieged;
  besieged.east.Do({"grant", "add", "loot", "--to", "1002@mallory", "--write"});
  besieged.east.Do({"grant", "add", "loot", "--to", "1001@trudy", "--write"});
  const v1::ReserveResponse ticket = besieged.OneByte();
  v1::Transfer started;
  SECTION("another user of the node") {
    CHECK(besieged.mallory.Start(1002, ticket, "loot", &started).error_code() ==
          grpc::StatusCode::PERMISSION_DENIED);
  }
  SECTION("another node") {
    HostilePeer trudy(besieged.east, "trudy");
    v1::StartRequest request;
    request.set_transfer_id(besieged.mallory.transfer_id());
    request.set_uid(kUid);
    *request.mutable_reservation() = ticket;
    request.mutable_destination()->set_buffer("loot");
    CHECK(trudy.stub().Start(trudy.Context().get(), request, &started).error_code() ==
          grpc::StatusCode::PERMISSION_DENIED);
  }
  SECTION("its holder, once") {
    REQUIRE(besieged.mallory.Start(kUid, ticket, "loot", &started).ok());
    CHECK(besieged.mallory.WaitForEnd(started.id()).state() == v1::SUCCEEDED);
    CHECK(Contents(besieged.east, "loot@0+1") == besieged.secret.substr(7, 1));
    CHECK_FALSE(besieged.mallory.Start(kUid, ticket, "loot", &started).ok());
  }
  besieged.CheckHeld();
}

TEST_CASE("planning on behalf of somebody tells no more than a transfer would") {
  Besieged besieged;
  const auto plan = [&](const std::string& buffer, uint64_t offset, uint64_t bytes) {
    v1::StartRequest request;
    request.set_uid(kUid);
    request.set_transfer_id("plan");
    request.set_validate_only(true);
    v1::ReserveResponse& reservation = *request.mutable_reservation();
    reservation.mutable_source()->set_node("east");
    reservation.mutable_source()->set_buffer(buffer);
    reservation.mutable_source()->set_offset_bytes(offset);
    reservation.mutable_source()->set_bytes(bytes);
    reservation.set_memory("host");
    request.mutable_destination()->set_buffer("loot");
    v1::Transfer planned;
    return besieged.mallory.stub().Start(besieged.mallory.Context().get(), request, &planned);
  };
  CHECK(plan("secret", 7, 1).ok());
  const grpc::Status beyond = plan("secret", 0, kBytes);
  CHECK(beyond.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  const grpc::Status there = plan("other", 0, 1);
  const grpc::Status not_there = plan("nonesuch", 0, 1);
  CHECK_FALSE(there.ok());
  CHECK(there.error_code() == not_there.error_code());
  CHECK(there.error_message().find("root") == std::string::npos);
  CHECK(there.error_message().find("0@") == std::string::npos);
  besieged.CheckHeld();
}
}  // namespace hostile_peer_test
