// What is said of a buffer and of a grant, through text and back.
#include <string>

#include "daemon/engine/registry/record_texts.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace onecopy::engine {
namespace {

BufferRecord Sample() {
  BufferRecord record;
  record.id = {17, 4};
  record.name = "weights";
  record.owner = {Uid(1000), "east"};
  record.kind = "cuda";
  record.device = "GPU-5f";
  record.bytes = UINT64_MAX;
  record.create_time = WallTime(std::chrono::microseconds(1'700'000'000'123'456));
  record.keep_arrivals = true;
  record.peer_room = true;
  record.request_id = "once \"more\"\n";
  record.request = "create\xff weights";
  record.held = {9, "cuda-vmm", 96, 4096, ""};
  return record;
}

void CheckUnread(const std::string& text) {
  INFO(text);
  CHECK(BufferOfText(text, "west").status().reason() == reasons::kBadHandle);
  CHECK(GrantOfText(text, "west").status().reason() == reasons::kBadHandle);
  CHECK(TicketOfText(text, "west").status().reason() == reasons::kBadHandle);
  CHECK(ArrivingOfText(text, "west").status().reason() == reasons::kBadHandle);
  CHECK(OrderedOfText(text, "west").status().reason() == reasons::kBadHandle);
}

TEST_CASE("a buffer's record says all of it again") {
  const BufferRecord record = Sample();
  const auto read = BufferOfText(ToText(record), "west");
  REQUIRE_OK(read);
  CHECK(read->id == record.id);
  CHECK(read->name == record.name);
  CHECK(read->owner == record.owner);
  CHECK(read->kind == record.kind);
  CHECK(read->device == record.device);
  CHECK(read->bytes == record.bytes);
  CHECK(read->create_time == record.create_time);
  CHECK(read->keep_arrivals);
  CHECK(read->peer_room);
  CHECK(read->request_id == record.request_id);
  CHECK(read->held.number == 9);
  CHECK(read->held.form == "cuda-vmm");
  CHECK(read->held.offset == 96);
  CHECK(read->held.allocation_bytes == 4096);
  CHECK_FALSE(read->view_of);
}

TEST_CASE("an owner in other namespaces, or of this node, is the same again") {
  BufferRecord record = Sample();
  for (const Owner& owner : {Owner{Uid(0, "pid4026532567"), "west"}, Owner{Uid(5), "west"}}) {
    record.owner = owner;
    const auto read = BufferOfText(ToText(record), "west");
    REQUIRE_OK(read);
    CHECK(read->owner == owner);
  }
}

TEST_CASE("a view's record says where it lies, and how its elements do") {
  BufferRecord record = Sample();
  record.view_of = BufferId{3, 1};
  record.offset = 4096;
  record.array = ArrayShape{"float32", 4, {40, 50}, {200, 4}};
  const auto read = BufferOfText(ToText(record), "west");
  REQUIRE_OK(read);
  CHECK(read->view_of == record.view_of);
  CHECK(read->offset == 4096);
  CHECK(read->array == record.array);
}

TEST_CASE("a grant's record says all of it again") {
  GrantRecord record;
  record.id = GrantId("grant-1");
  record.buffer = {17, 4};
  record.range = {16, UINT64_MAX - 16};
  record.to = {Uid(1001), "north"};
  record.read = true;
  for (const bool expires : {false, true}) {
    record.expire_time.reset();
    if (expires) record.expire_time = WallTime(std::chrono::microseconds(1'700'000'000'123'456));
    const auto read = GrantOfText(ToText(record), "west");
    REQUIRE_OK(read);
    CHECK(read->id.str() == "grant-1");
    CHECK(read->buffer == record.buffer);
    CHECK(read->range == record.range);
    CHECK(read->to == record.to);
    CHECK(read->read);
    CHECK_FALSE(read->write);
    CHECK(read->expire_time == record.expire_time);
  }
}

TEST_CASE("a ticket's record says all of it again") {
  TicketRecord record;
  record.text = "secret.3";
  record.transfer = TransferId("t-1");
  record.whole = TransferId("t");
  record.buffer = {17, 4};
  record.range = {16, 100};
  record.destination_node = "east";
  record.initiator = "north";
  record.owner = {Uid(1001), "north"};
  for (const bool granted : {false, true}) {
    if (granted) record.grant = GrantId("grant-1");
    const auto read = TicketOfText(ToText(record), "west");
    REQUIRE_OK(read);
    CHECK(read->text == record.text);
    CHECK(read->transfer == record.transfer);
    CHECK(read->whole == record.whole);
    CHECK(read->buffer == record.buffer);
    CHECK(read->range == record.range);
    CHECK(read->destination_node == "east");
    CHECK(read->initiator == "north");
    CHECK(read->owner == record.owner);
    CHECK(read->grant == record.grant);
  }
}

TEST_CASE("the record of a transfer under way says all of it again") {
  ArrivingRecord record;
  record.request.id = TransferId("t-1");
  record.request.uid = Uid(1001);
  record.request.administrator = true;
  record.request.reservation.ticket = "secret";
  record.request.reservation.source = {"west", "a", 16, 100};
  record.request.reservation.memory = "cuda";
  record.request.reservation.device = "GPU-5f";
  record.request.reservation.memory_id = "3.1";
  record.request.asked.destination = {"east", "17.4", 32, 100};
  record.request.asked.policy.path_glob = "tcp-*";
  record.request.asked.policy.link = "tcp";
  record.request.asked.policy.allow_emulated = true;
  record.request.asked.checksum = true;
  record.request.asked.pacing = {uint64_t{3} << 20, Priority::kHigh};
  record.request.asked.trace =
      *onecopy::TraceContext::Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  record.caller = "north";
  record.path = "tcp-direct";
  record.resumed_from = 4096;
  record.vain_starts = 2;
  record.create_time = WallTime(std::chrono::microseconds(1'700'000'000'123'456));
  for (const bool bounded : {false, true}) {
    if (bounded) record.request.asked.policy.at_most_copies = 3;
    const auto read = ArrivingOfText(ToText(record), "east");
    REQUIRE_OK(read);
    CHECK(read->request.id == record.request.id);
    CHECK(read->request.uid == record.request.uid);
    CHECK(read->request.administrator);
    CHECK(read->request.reservation.ticket == "secret");
    CHECK(read->request.reservation.source == record.request.reservation.source);
    CHECK(read->request.reservation.memory == "cuda");
    CHECK(read->request.reservation.device == "GPU-5f");
    CHECK(read->request.reservation.memory_id == "3.1");
    CHECK(read->request.asked.destination == record.request.asked.destination);
    CHECK(read->request.asked.policy == record.request.asked.policy);
    CHECK(read->request.asked.checksum);
    CHECK(read->request.asked.pacing == record.request.asked.pacing);
    CHECK(read->request.asked.trace == record.request.asked.trace);
    CHECK(read->caller == "north");
    CHECK(read->path == "tcp-direct");
    CHECK(read->resumed_from == 4096);
    CHECK(read->vain_starts == 2);
    CHECK(read->create_time == record.create_time);
  }
}

TEST_CASE("the record of a transfer that was asked for says all of it again") {
  OrderedRecord record;
  record.info.id = TransferId("t-1");
  record.info.role = onecopy::TransferRole::kSource;
  record.info.source = {"west", "a", 16, 100};
  record.info.destination = {"east", "", {}, {}};
  record.info.destination.file = "/data/weights \xc3\xa9";
  record.info.bytes = 100;
  record.info.create_time = WallTime(std::chrono::microseconds(1'700'000'000'123'456));
  record.info.trace =
      *onecopy::TraceContext::Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  record.owner = {Uid(1001), "west"};
  record.request_id = "mine";
  record.request = "what it asked for";
  for (const bool bundle : {false, true}) {
    record.bundle = bundle;
    if (bundle) record.info.source_buffers = 3;
    if (bundle) record.info.destination_buffers = 2;
    const auto read = OrderedOfText(ToText(record), "west");
    REQUIRE_OK(read);
    CHECK(read->info.id == record.info.id);
    CHECK(read->info.role == record.info.role);
    CHECK(read->info.source == record.info.source);
    CHECK(read->info.destination == record.info.destination);
    CHECK(read->info.bytes == 100);
    CHECK(read->info.trace == record.info.trace);
    CHECK(read->info.create_time == record.info.create_time);
    CHECK(read->info.owner == record.owner.ToString());
    CHECK(read->owner == record.owner);
    CHECK(read->bundle == bundle);
    CHECK(read->info.source_buffers == record.info.source_buffers);
    CHECK(read->info.destination_buffers == record.info.destination_buffers);
    CHECK(read->request_id == "mine");
    CHECK(read->request == "what it asked for");
  }
  record.info.role = static_cast<onecopy::TransferRole>(77);
  CHECK_FALSE(OrderedOfText(ToText(record), "west").ok());
}

TEST_CASE("what is no record is refused, whatever it is") {
  for (const char* text : {"", "null", "[]", "{}", "{\"id\":17}", "\"", "{\"id\":\"x\"}"}) {
    CheckUnread(text);
  }
  const std::string whole = ToText(Sample());
  for (size_t cut = 0; cut < whole.size(); ++cut) CheckUnread(whole.substr(0, cut));
  // Each of its parts as something else.
  for (const char* part :
       {"\"17.4\"", "\"weights\"", "\"1000@east\"", "\"cuda\"", "\"cuda-vmm\""}) {
    std::string other = whole;
    other.replace(other.find(part), std::string(part).size(), "[7]");
    CheckUnread(other);
  }
}

}  // namespace
}  // namespace onecopy::engine
