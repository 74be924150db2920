// Files, which go through windows of memory: one transfer each, for everyone who looks.
#include <signal.h>

#include <sstream>

#include "onecopy/file_copy.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace series_test {
namespace {

using namespace onecopy::testing;
using onecopy::Client;
using onecopy::Endpoint;
using onecopy::FileCopyOptions;

constexpr uint64_t kWindow = 64 << 10;
constexpr uint64_t kWindows = 16;
constexpr uint64_t kBytes = kWindow * kWindows;

// Lines of the node's log that tell the end of a transfer.
std::vector<std::string> Ends(const Node& node) {
  std::istringstream log(node.Log());
  std::vector<std::string> ends;
  for (std::string line; std::getline(log, line);) {
    if (line.find("transfer ended") != std::string::npos) ends.push_back(line);
  }
  return ends;
}

struct Fixture {
  Pair pair;
  Node& east = pair.east;
  Node& west = pair.west;
  Client client = east.Connect();
  const std::string payload = Payload(kBytes);
  TempFolder folder;
  const std::string file = folder / "in";

  explicit Fixture(const std::string& config = {}) : pair(config) {
    west.Do({"buffer", "create", "b", "--size", std::to_string(kBytes)});
    WriteFile(file, payload);
  }

  static FileCopyOptions Options() {
    FileCopyOptions options;
    options.window_bytes = kWindow;
    options.policy.path_glob = "tcp-*";  // without which daemons move files by themselves
    return options;
  }

  // The only transfer that the node knows, once it is in that state.
  Json OnlyOne(const Node& node, const std::string& id, const std::string& state = "SUCCEEDED") {
    node.WaitForTransfer(id, state);
    const Json listed = node.Do({"transfer", "ls"});
    REQUIRE(listed.size() == 1);
    CHECK(listed[0].at("id") == id);
    CHECK(listed[0].at("state") == state);
    return listed[0];
  }
};

// A copy of standard input to west, under way: something of it has arrived, and more may follow.
struct Copying : Fixture {
  std::unique_ptr<Process> command;
  std::string id;

  explicit Copying(const std::string& config = {}) : Fixture(config) {
    command = std::make_unique<Process>(
        ProcessOptions{.program = "onecopy",
                       .arguments = {"--run-dir", east.run_dir(), "--json", "cp", "-", "west:b"},
                       .input_file = "",
                       .error_file = folder / "err"});
    WaitUntil("the copy is listed", [&] {
      const Json listed = east.Do({"transfer", "ls"});
      if (listed.empty()) return false;
      id = listed[0].at("id");
      return true;
    });
  }
};

}  // namespace

TEST_CASE("a file of many windows is one transfer in every list, log and receipt") {
  Fixture f;
  const auto copy =
      Must(onecopy::CopyFileToBuffer(f.client, {f.file}, {"west", "b"}, Fixture::Options()));
  CHECK(copy.windows == kWindows);
  const std::string id = copy.id.str();
  for (Node* node : {&f.east, &f.west}) {
    INFO(node->name());
    const Json seen = f.OnlyOne(*node, id);
    CHECK(seen.at("role") == (node == &f.east ? "source" : "destination"));
    CHECK(seen.at("source") == "east:" + f.file);
    CHECK(seen.at("destination") == "west:b@0+" + std::to_string(kBytes));
    CHECK(seen.at("bytes") == kBytes);
    CHECK(seen.at("bytes_done") == kBytes);
    CHECK(seen.at("parts") == kWindows);
    CHECK(seen.at("path") == "tcp-direct");
    CHECK(seen.at("copies") == 4);
    for (const Json& step : seen.at("steps")) CHECK(step.at("bytes") == kBytes);
    CHECK(seen.at("steps")[0].at("by") == "client");
    CHECK(seen.at("steps")[0].at("from") == "file");
    uint64_t by_lanes = 0;
    for (const Json& lane : seen.at("lanes")) by_lanes += lane.at("bytes").get<uint64_t>();
    CHECK(by_lanes == kBytes);
    CHECK(seen.at("bytes_per_second") > 0);
    WaitUntil("the end is logged", [&] { return !Ends(*node).empty(); });
    REQUIRE(Ends(*node).size() == 1);
    CHECK(Ends(*node)[0].find(id) != std::string::npos);
  }
  CHECK(copy.receipt.path == "tcp-direct");
  CHECK(copy.receipt.copies() == 4);
  CHECK(copy.receipt.lanes.size() == f.east.Do({"transfer", "show", id}).at("lanes").size());
  CHECK(Contents(f.west, "b") == f.payload);
}

TEST_CASE("a buffer becomes a file as one transfer, and its checksum is that of the whole") {
  Fixture f;
  f.west.Do({"cp", "-", "b"}, f.payload);
  FileCopyOptions options = Fixture::Options();
  options.checksum = true;
  const auto copy =
      Must(onecopy::CopyBufferToFile(f.client, {"west", "b"}, {f.folder / "out"}, options));
  CHECK(ReadFile(f.folder / "out") == f.payload);
  const Json seen = f.OnlyOne(f.east, copy.id.str());
  CHECK(seen.at("destination") == "east:" + std::string(f.folder / "out"));
  CHECK(seen.at("steps").back().at("to") == "file");
  CHECK(seen.at("checksum").at("verified") == true);
  CHECK(seen.at("checksum").at("value") == f.west.Do({"buffer", "sum", "b"}).at("tree"));
  REQUIRE(copy.receipt.checksum.has_value());
  CHECK(seen.at("checksum").at("value") == copy.receipt.checksum->value);
  // On west, beside the copy from its standard input.
  f.west.WaitForTransfer(copy.id.str(), "SUCCEEDED");
  CHECK(f.west.Do({"transfer", "ls"}).size() == 2);
}

TEST_CASE("a copy of many more windows than transfers are kept leaves everyone's history") {
  Fixture f("[transfers]\nkeep = 4\n");
  f.east.Do({"buffer", "create", "a", "--size", "10"});
  f.west.Do({"buffer", "create", "c", "--size", "10"});
  const std::string before = f.east.Do({"cp", "a", "west:c"}).at("id");
  FileCopyOptions options = Fixture::Options();
  options.window_bytes = 4096;  // 256 windows, more than are kept of one copy, too
  const auto copy = Must(onecopy::CopyFileToBuffer(f.client, {f.file}, {"west", "b"}, options));
  for (Node* node : {&f.east, &f.west}) {
    node->WaitForTransfer(copy.id.str(), "SUCCEEDED");
    CHECK(node->Do({"transfer", "show", before}).at("state") == "SUCCEEDED");
    CHECK(node->Do({"transfer", "ls"}).size() == 2);
  }
}

TEST_CASE("a stream is one transfer of as much as came, and is watched to its end") {
  Copying copying;
  CHECK(copying.east.Do({"transfer", "show", copying.id}).at("source") == "east:-");
  Process watching({.program = "onecopy",
                    .arguments = {"--run-dir", copying.east.run_dir(), "--json", "transfer",
                                  "watch", copying.id},
                    .error_file = copying.folder / "watch"});
  const std::string text = copying.payload.substr(0, 1000);
  copying.command->Write(text);
  copying.command->CloseInput();
  const Json copied = Json::parse(copying.command->ReadAll());
  CHECK(copying.command->Wait() == 0);
  CHECK(Json::parse(watching.ReadAll()).at("bytes") == text.size());
  CHECK(watching.Wait() == 0);
  CHECK(copied.at("id") == copying.id);
  CHECK(copied.at("bytes") == text.size());
  CHECK(copying.OnlyOne(copying.east, copying.id).at("bytes") == text.size());
  CHECK(copying.OnlyOne(copying.west, copying.id).at("bytes") == text.size());
  CHECK(Contents(copying.west, "b@0+1000") == text);
}

TEST_CASE("a copy of a file is cancelled by its one id, from either node") {
  for (const bool from_west : {false, true}) {
    INFO(from_west);
    // So slow that it runs for many seconds.
    Fixture f("[tcp]\nlanes = 1\nchunk_bytes = \"4KiB\"\ngets_per_lane = 1\n");
    f.west.Do({"buffer", "create", "large", "--size", "1GiB"});
    Process copying(
        {.program = "onecopy",
         .arguments = {"--run-dir", f.east.run_dir(), "--json", "cp", "-", "west:large"},
         .input_file = "/dev/zero",
         .error_file = f.folder / "err"});
    std::string id;
    const Node& other = from_west ? f.west : f.east;
    WaitUntil("bytes move", [&] {
      const Json listed = other.Do({"transfer", "ls"});
      if (listed.empty() || listed[0].at("bytes_done") == 0) return false;
      id = listed[0].at("id");
      CHECK(listed.size() == 1);
      CHECK_FALSE(listed[0].at("lanes").empty());
      return listed[0].at("state") == "RUNNING";
    });
    CHECK(other.Do({"transfer", "cancel", id}).at("id") == id);
    const Json said = Json::parse(copying.ReadAll());
    INFO(said.dump(2));
    CHECK(copying.Wait() == 130);
    CHECK(said.at("error").at("message").get<std::string>().find(id) != std::string::npos);
    f.OnlyOne(f.east, id, "CANCELLED");
    f.OnlyOne(f.west, id, "CANCELLED");
    WaitUntil("its windows are gone", [&] { return f.east.Do({"buffer", "ls"}).empty(); });
    f.west.Do({"buffer", "rm", "large"});
  }
}

TEST_CASE("a copy whose client is killed has failed on both nodes, and nothing of it is left") {
  Copying copying;
  copying.command->Signal(SIGKILL);
  copying.command->Wait();
  const Json failed = copying.east.WaitForTransfer(copying.id, "FAILED");
  CHECK(failed.at("error").at("reason") == "OWNER_DIED");
  CHECK(failed.at("error").at("message").get<std::string>().find("gone") != std::string::npos);
  CHECK(failed.at("bytes_per_second") == 0);
  WaitUntil("its windows are gone", [&] { return copying.east.Do({"buffer", "ls"}).empty(); });
  copying.OnlyOne(copying.east, copying.id, "FAILED");
}

TEST_CASE("what is told of a file's policy is so") {
  Fixture f;
  const CommandResult one =
      f.east.Run({"cp", f.file, "west:b", "--path", "tcp-*", "--at-most", "1"});
  CheckRefused(one, 7, "FAILED_PRECONDITION", "POLICY_UNMET");
  bool direct = false;
  for (const Json& refusal : one.json.at("error").at("refused")) {
    if (refusal.at("path") != "tcp-direct") continue;
    direct = true;
    CHECK(refusal.at("reason") == "MORE_COPIES");
    CHECK(
        refusal.at("detail") ==
        "it takes 4 copies, including the client's own copy of its file, and the policy allows 1");
  }
  CHECK(direct);
  for (const std::string command : {"cp", "explain"}) {
    const auto words = [&](const char* copies) {
      return std::vector<std::string>{command, f.file,      "west:b", "--path",
                                      "tcp-*", "--at-most", copies};
    };
    CheckRefused(f.east.Run(words("3")), 7, "FAILED_PRECONDITION", "POLICY_UNMET");
    CHECK(f.east.Do(words("4")).at("copies") == 4);
  }
  for (const std::string command : {"cp", "explain"}) {
    const CommandResult storage =
        f.east.Run({command, f.file, "west:b", "--path", "storage-direct"});
    CheckRefused(storage, 7, "FAILED_PRECONDITION", "POLICY_UNMET");
    CHECK(storage.out.find("both ends are buffers") == std::string::npos);
    CHECK(storage.out.find("through its own memory") != std::string::npos);
  }
  // Between two buffers all is as it was.
  f.east.Do({"buffer", "create", "a", "--size", "10"});
  const CommandResult buffers = f.east.Run({"cp", "a", "west:b", "--path", "storage-direct"});
  CHECK(buffers.out.find("both ends are buffers") != std::string::npos);
  CheckRefused(f.east.Run({"cp", "a", "west:b", "--at-most", "0"}), 2, "INVALID_ARGUMENT",
               "BAD_POLICY");
}

TEST_CASE("a file's copy ends with the daemon that it was ordered from") {
  Copying copying("[peering]\nheartbeat = \"200ms\"\nreconnect_delay_max = \"200ms\"\n");
  copying.command->Write(std::string(64, 'x'));
  copying.east.Kill();
  copying.command->CloseInput();
  CHECK(copying.command->Wait() != 0);
  copying.east.Restart();
  copying.west.WaitForPeer("east");
  WaitUntil("west knows of no copy under way", [&] {
    for (const Json& transfer : copying.west.Do({"transfer", "ls"})) {
      if (transfer.at("state") == "RUNNING" || transfer.at("state") == "PENDING") return false;
    }
    return true;
  });
}

TEST_CASE("a copy of a file that is refused leaves no transfer") {
  Fixture f;
  CHECK(f.east.Run({"cp", f.file, "west:b", "--at-most", "1"}).exit_status == 7);
  CHECK(f.east.Run({"cp", f.file, "west:none"}).exit_status == 3);
  CHECK(f.east.Do({"transfer", "ls"}).empty());
  CHECK(f.west.Do({"transfer", "ls"}).empty());
  CHECK(Ends(f.east).empty());
}
}  // namespace series_test
