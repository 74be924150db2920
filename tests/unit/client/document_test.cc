#include "client/cli/output/document.h"

#include <sstream>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using cli::Json;

namespace {

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

Step Wire() {
  Step step;
  step.node = "west";
  step.from = "kernel";
  step.to = "kernel";
  step.by = "wire";
  step.loopback = true;
  return step;
}

TransferInfo Transfer() {
  TransferInfo transfer;
  transfer.id = TransferId("t1");
  transfer.state = TransferState::kSucceeded;
  transfer.role = TransferRole::kDestination;
  transfer.source = {"east", "a", 0, 100};
  transfer.destination = {"west", "b", 5, 100};
  transfer.bytes = 100;
  transfer.bytes_done = 100;
  transfer.owner = "1000@east";
  transfer.create_time = std::chrono::system_clock::from_time_t(1'700'000'000);
  transfer.receipt.path = "tcp-direct";
  transfer.receipt.link = "tcp";
  transfer.receipt.steps = {{Wire(), 100}};
  transfer.receipt.lanes = {{"lo", "127.0.0.1:7702", 100}};
  transfer.receipt.seconds = 0.5;
  transfer.receipt.bytes_per_second = 200.4;
  transfer.receipt.checksum = ChecksumResult{"xxh3-128", "00ff", true};
  transfer.receipt.refused = {{"rdma-direct", "NO_RDMA_DEVICE", "none", "install one"}};
  transfer.receipt.attempts = {{"tcp-direct", "SUCCEEDED", 100}};
  transfer.receipt.evidence = {{"tcp.bytes", "100"}};
  return transfer;
}

}  // namespace

TEST_CASE("a receipt has the keys that others rely on, in their order") {
  const Json receipt = cli::ToJson(cli::MoveOf(Transfer()));
  CHECK(Keys(receipt) ==
        std::vector<std::string>{
            "id",       "state",         "source",        "destination",      "bytes",
            "ranges",   "merged_ranges", "path",          "copies",           "link",
            "emulated", "registration",  "key",           "encryption",       "steps",
            "lanes",    "seconds",       "asked_seconds", "bytes_per_second", "negotiation_seconds",
            "checksum", "refused",       "attempts",      "evidence"});
  CHECK(receipt["id"] == "t1");
  CHECK(receipt["state"] == "SUCCEEDED");
  CHECK(receipt["source"] == "east:a@0+100");
  CHECK(receipt["destination"] == "west:b@5+100");
  CHECK(receipt["copies"] == 1);
  CHECK(receipt["registration"] == "none");
  CHECK(receipt["bytes_per_second"].is_number_integer());
  CHECK(receipt["bytes_per_second"] == 200);
  CHECK(receipt["seconds"] == 0.5);
  REQUIRE(receipt["steps"].is_array());
  CHECK(Keys(receipt["steps"][0]) ==
        std::vector<std::string>{"from", "to", "by", "node", "loopback", "emulated", "bytes"});
  CHECK(Keys(receipt["lanes"][0]) == std::vector<std::string>{"device", "peer", "bytes"});
  CHECK(Keys(receipt["checksum"]) == std::vector<std::string>{"algorithm", "value", "verified"});
  CHECK(Keys(receipt["refused"][0]) ==
        std::vector<std::string>{"path", "reason", "detail", "remedy"});
  CHECK(Keys(receipt["attempts"][0]) == std::vector<std::string>{"path", "outcome", "bytes"});
  CHECK(receipt["evidence"]["tcp.bytes"] == "100");
}

TEST_CASE("an empty receipt has empty lists and no checksum") {
  const Json receipt = cli::ToJson(cli::Move());
  CHECK(receipt["steps"] == Json::array());
  CHECK(receipt["lanes"] == Json::array());
  CHECK(receipt["refused"] == Json::array());
  CHECK(receipt["attempts"] == Json::array());
  CHECK(receipt["evidence"] == Json::object());
  CHECK(receipt["checksum"].is_null());
  CHECK(receipt["copies"] == 0);
  CHECK_FALSE(receipt.contains("parts"));
}

TEST_CASE("the receipt of several buffers says that there are more than the first") {
  TransferInfo transfer;
  transfer.source = {"east", "a", 0, 64};
  transfer.destination = {"west", "b", 0, 64};
  transfer.source_buffers = 3;
  const cli::Move move = cli::MoveOf(transfer);
  CHECK(move.source == "east:a@0+64 and 2 more");
  CHECK(move.destination == "west:b@0+64");
}

TEST_CASE("the receipt of a file says of how many parts it was") {
  cli::Move move;
  move.parts = 2;
  CHECK(cli::ToJson(move)["parts"] == 2);
}

TEST_CASE("a transfer is its receipt and what else is known") {
  const Json transfer = cli::ToJson(Transfer());
  CHECK(transfer["role"] == "destination");
  CHECK(transfer["bytes_done"] == 100);
  CHECK(transfer["owner"] == "1000@east");
  CHECK(transfer["create_time"] == "2023-11-14T22:13:20Z");
  CHECK(transfer["end_time"].is_null());
  CHECK(transfer["error"].is_null());
  TransferInfo failed = Transfer();
  failed.error = Status(Code::kUnavailable, reasons::kPeerDown, "west went", "start it");
  CHECK(cli::ToJson(failed)["error"]["reason"] == "PEER_DOWN");
}

TEST_CASE("an error is one object under one key") {
  const Json document =
      cli::ToJson(Status(Code::kFailedPrecondition, reasons::kPolicyUnmet, "no path", "allow more")
                      .WithRefusals({{"rdma-direct", "NO_RDMA_DEVICE", "none", "install one"}}));
  REQUIRE(document.is_object());
  CHECK(Keys(document) == std::vector<std::string>{"error"});
  CHECK(Keys(document["error"]) ==
        std::vector<std::string>{"code", "reason", "message", "remedy", "refused"});
  CHECK(document["error"]["code"] == "FAILED_PRECONDITION");
  CHECK(document["error"]["refused"][0]["path"] == "rdma-direct");
  CHECK(cli::ToJson(Status(Code::kInternal, "X", "y"))["error"]["refused"] == Json::array());
}

TEST_CASE("lists are lists, empty ones too") {
  CHECK(cli::ListToJson(std::vector<BufferInfo>()).dump() == "[]");
  BufferInfo buffer;
  buffer.name = "a";
  const Json list = cli::ListToJson(std::vector<BufferInfo>{buffer});
  REQUIRE(list.size() == 1);
  CHECK(Keys(list[0]) == std::vector<std::string>{"node", "name", "id", "memory", "device", "bytes",
                                                  "owner", "registered", "form", "create_time",
                                                  "transfers", "keep_arrivals", "view_of",
                                                  "offset_bytes", "array"});
}

TEST_CASE("an arrival is told with its message as text and as it is") {
  Arrival arrival;
  arrival.buffer = "a";
  arrival.transfer = TransferId("t");
  arrival.range = {8, 16};
  arrival.bytes = 12;
  arrival.message = std::string(
      "\x01\xff"
      "A",
      3);
  const Json document = cli::ToJson(arrival);
  CHECK(Keys(document) == std::vector<std::string>{"buffer", "buffer_id", "sequence", "transfer",
                                                   "from", "offset_bytes", "bytes", "payload_bytes",
                                                   "message", "message_hex", "time"});
  CHECK(document["transfer"] == "t");
  CHECK(document["bytes"] == 16);
  CHECK(document["message_hex"] == "01ff41");
  std::ostringstream line;
  cli::PrintLine(line, document);
  CHECK(line.str().find('\n') == line.str().size() - 1);
  arrival.transfer = {};
  CHECK(cli::ToJson(arrival)["transfer"].is_null());
}

TEST_CASE("a plan tells what the receipt would") {
  Plan plan;
  plan.path = "tcp-direct";
  plan.steps = {Wire()};
  plan.estimated_bytes_per_second = 1e9;
  const Json document = cli::PlanToJson("a", "b", plan);
  CHECK(Keys(document) == std::vector<std::string>{"source", "destination", "path", "copies",
                                                   "link", "steps", "estimated_bytes_per_second",
                                                   "measured", "measure_time", "measured_transfers",
                                                   "tried_again", "placement", "refused"});
  CHECK(document["measure_time"].is_null());
  plan.measured = true;
  plan.measure_time = WallTime(std::chrono::seconds(1'700'000'000));
  CHECK(cli::PlanToJson("a", "b", plan)["measure_time"] == "2023-11-14T22:13:20Z");
  CHECK(document["steps"][0]["loopback"] == true);
  CHECK(document["estimated_bytes_per_second"] == 1'000'000'000);
}

TEST_CASE("rates that are no numbers are 0") {
  cli::Move move;
  move.receipt.bytes_per_second = 0.0 / 0.0;
  CHECK(cli::ToJson(move)["bytes_per_second"] == 0);
}

TEST_CASE("names that are not UTF-8 do not keep the document from being printed") {
  std::ostringstream out;
  cli::Print(out, Json{{"source", "./\xff\x1b"}});
  CHECK(Json::parse(out.str()).is_object());
  CHECK(out.str().find('\x1b') == std::string::npos);
}
