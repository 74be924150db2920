// Files of clients, and buffers of another node: one pipeline, both ways, and what is told of it.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "onecopy/file_copy.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "transport/os/base/unique_fd.h"

namespace storage_nodes_test {
namespace {

using namespace onecopy::testing;
using onecopy::Client;
using onecopy::Endpoint;
namespace os = onecopy::os;

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Far more than all slots hold, and no whole number of anything.
constexpr uint64_t kLong = 150 * kMiB + 4097;

struct Across {
  explicit Across(const std::string& config = {}) : pair(config) {}

  Pair pair;
  Node& east = pair.east;
  Node& west = pair.west;
  TempFolder folder;

  void Create(const std::string& name, uint64_t bytes) {
    west.Do({"buffer", "create", name, "--size", std::to_string(bytes)});
  }
  size_t Files() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder.path()), {}));
  }
  // Nobody has a file of the folder open any more: not even a daemon.
  void CheckClosed() {
    for (Node* node : {&east, &west}) {
      const std::string fds = "/proc/" + std::to_string(node->process().pid()) + "/fd";
      WaitUntil("the daemon has closed its files", [&] {
        for (const auto& entry : std::filesystem::directory_iterator(fds)) {
          std::error_code gone;
          const std::string to = std::filesystem::read_symlink(entry.path(), gone);
          if (to.starts_with(folder.path().string())) return false;
        }
        return true;
      });
    }
  }
};

// So few and so small slots that a copy takes long enough to be met under way.
constexpr const char* kSlow =
    "[staging]\nslot_bytes = \"4KiB\"\nslots = 4\n[transfers]\nstall_timeout = \"3s\"\nresume_for "
    "= \"0s\"\n";

std::string StepsOf(const Json& receipt) {
  std::string text;
  for (const Json& step : receipt.at("steps")) {
    text += (text.empty() ? "" : " ") + step.at("from").get<std::string>() + ">" +
            step.at("to").get<std::string>() + "@" + step.at("node").get<std::string>();
  }
  return text;
}

// What a copy between the two nodes has to tell, where its file went that way throughout.
void CheckReceiptOf(const Json& receipt, const std::string& path, uint64_t bytes,
                    const std::string& steps) {
  INFO(receipt.dump(2));
  CHECK(receipt.at("state") == "SUCCEEDED");
  CHECK(receipt.at("path") == path);
  CHECK(receipt.at("link") == "tcp");
  CHECK(receipt.at("bytes") == bytes);
  CHECK(receipt.at("copies") == receipt.at("steps").size());
  CHECK(receipt.at("evidence").at("storage").get<std::string>().starts_with("posix: "));
  uint64_t carried = 0;
  for (const Json& lane : receipt.at("lanes")) carried += lane.at("bytes").get<uint64_t>();
  CHECK(carried == bytes);
  if (bytes == 0) return;
  CHECK(StepsOf(receipt) == steps);
  for (const Json& step : receipt.at("steps")) {
    CHECK(step.at("bytes") == bytes);
    CHECK(step.at("by") != "client");
  }
}

bool InMemory(const Json& receipt) {
  return receipt.at("evidence").at("storage").get<std::string>().ends_with("in memory");
}

// Slots are called "pinned" where they could be locked.
std::string Into(const Json& receipt) {
  std::string slots;
  for (const Json& step : receipt.at("steps")) {
    if (step.at("to") == "kernel" && step.at("node") == "east") slots = step.at("from");
  }
  return (InMemory(receipt) ? "file>" : "file>page-cache@east page-cache>") + slots + "@east " +
         slots + ">kernel@east kernel>kernel@west kernel>host@west";
}

std::string OutOf(const Json& receipt) {
  std::string slots;
  for (const Json& step : receipt.at("steps")) {
    if (step.at("from") == "kernel" && step.at("by") == "cpu") slots = step.at("to");
  }
  return "host>kernel@west kernel>kernel@east kernel>" + slots + "@east " + slots +
         (InMemory(receipt) ? ">file@east" : ">page-cache@east page-cache>file@east");
}

std::string RefusalOf(const Json& refused, const std::string& path) {
  for (const Json& refusal : refused) {
    if (refusal.at("path") == path) return refusal.at("reason");
  }
  return {};
}

}  // namespace

TEST_CASE("a file goes into a buffer of another node and back, byte for byte") {
  for (const char* io : {"auto", "threads"}) {
    Across with("[posix]\nio = \"" + std::string(io) + "\"\n");
    with.Create("b", 8 * kMiB);
    // What is small goes through the page cache on every file system but those in memory.
    for (const uint64_t bytes :
         {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{4096}, uint64_t{65537}}) {
      INFO(io << ", " << bytes << " bytes");
      const std::string payload = Payload(bytes, bytes + 1);
      const std::string part = "west:b@13+" + std::to_string(bytes);
      WriteFile(with.folder / "in", payload);
      const Json in = with.east.Do({"cp", with.folder / "in", part, "--checksum"});
      CheckReceiptOf(in, "storage-bounce+tcp-bounce", bytes, Into(in));
      CHECK(in.at("checksum").at("verified") == true);
      CHECK(Contents(with.west, part) == payload);
      const Json out = with.east.Do({"cp", part, with.folder / "out", "--checksum"});
      CheckReceiptOf(out, "storage-bounce+tcp-bounce", bytes, OutOf(out));
      CHECK(out.at("checksum").at("verified") == true);
      CHECK(ReadFile(with.folder / "out") == payload);
    }
    CHECK(with.east.Do({"buffer", "ls"}).empty());
    CHECK(with.west.Do({"buffer", "ls"}).size() == 1);
    with.CheckClosed();
  }
}

TEST_CASE("a file that all slots together do not hold passes through them") {
  Across with;
  with.Create("b", kLong);
  const std::string payload = Payload(kLong, 5);
  WriteFile(with.folder / "in", payload);
  const Json in = with.east.Do({"cp", with.folder / "in", "west:b", "--checksum"});
  CHECK(in.at("path") == "storage-bounce+tcp-bounce");
  CHECK(in.at("checksum").at("verified") == true);
  CHECK(Contents(with.west, "b") == payload);
  const Json out = with.east.Do({"cp", "west:b", with.folder / "out", "--checksum"});
  CHECK(out.at("path") == "storage-bounce+tcp-bounce");
  CHECK(ReadFile(with.folder / "out") == payload);
  // Both nodes tell the same of it, and nothing of the file is left open.
  for (Node* node : {&with.east, &with.west}) {
    const Json seen = node->WaitForTransfer(in.at("id"), "SUCCEEDED");
    CHECK(seen.at("steps") == in.at("steps"));
    CHECK(seen.at("source") ==
          "east:" + std::string(with.folder / "in") + "@0+" + std::to_string(kLong));
  }
  with.CheckClosed();
}

TEST_CASE("ranges of a file and of another node's buffer meet") {
  Across with;
  with.Create("b", kMiB);
  const std::string payload = Payload(kMiB, 3);
  WriteFile(with.folder / "f", payload);
  const Json in = with.east.Do({"cp", with.folder / "f@1001+5000", "west:b@77+5000"});
  CheckReceiptOf(in, "storage-bounce+tcp-bounce", 5000, Into(in));
  CHECK(Contents(with.west, "b@77+5000") == payload.substr(1001, 5000));
  const Json out = with.east.Do({"cp", "west:b@77+5000", with.folder / "f@3+5000"});
  CheckReceiptOf(out, "storage-bounce+tcp-bounce", 5000, OutOf(out));
  std::string expected = payload;
  expected.replace(3, 5000, payload.substr(1001, 5000));
  CHECK(ReadFile(with.folder / "f") == expected);
}

TEST_CASE("policies and plans hold for a file and another node") {
  Across with;
  with.Create("b", kMiB);
  const std::string file = with.folder / "f";
  WriteFile(file, Payload(1000));
  const Json plan = with.east.Do({"cp", file, "west:b", "--dry-run"});
  CHECK(plan.at("path") == "storage-bounce+tcp-bounce");
  const Json done = with.east.Do({"cp", file, "west:b"});
  CHECK(plan.at("copies") == done.at("copies"));
  CHECK(StepsOf(plan) == StepsOf(done));
  for (const char* better : {"storage-direct", "storage-bounce"}) {
    CHECK(RefusalOf(done.at("refused"), better) == "OTHER_NODE");
  }
  for (const char* better : {"rdma-direct", "peer-direct", "local"}) {
    CHECK(RefusalOf(done.at("refused"), better) == "NOT_APPLICABLE");
  }
  CHECK(RefusalOf(done.at("refused"), "storage-bounce+rdma-staged") != "");
  // Both ends through slots, which is one copy more.
  const Json staged = with.east.Do({"cp", file, "west:b", "--path", "storage-bounce+tcp-staged"});
  CHECK(staged.at("path") == "storage-bounce+tcp-staged");
  CHECK(staged.at("copies").get<size_t>() == done.at("copies").get<size_t>() + 1);
  CHECK(with.east.Do({"cp", file, "west:b", "--path", "storage-*", "--link", "tcp"}).at("path") ==
        "storage-bounce+tcp-bounce");
  CHECK(with.east.Do({"cp", "west:b@0+9", with.folder / "new", "--dry-run"}).at("path") ==
        "storage-bounce+tcp-bounce");
  CHECK_FALSE(std::filesystem::exists(with.folder / "new"));
  // Before a byte moves.
  with.east.Do({"cp", "-", "west:b@0+4"}, "kept");
  for (const std::vector<std::string>& less :
       std::vector<std::vector<std::string>>{{"--at-most", "3"},
                                             {"--path", "storage-bounce+rdma-*"},
                                             {"--path", "storage-*", "--link", "verbs"}}) {
    std::vector<std::string> words = {"cp", file, "west:b"};
    words.insert(words.end(), less.begin(), less.end());
    const CommandResult refused = with.east.Run(words);
    CheckRefused(refused, 7, "FAILED_PRECONDITION", "POLICY_UNMET");
    CHECK(Contents(with.west, "b@0+4") == "kept");
  }
  const CommandResult three = with.east.Run({"cp", file, "west:b", "--at-most", "3"});
  CHECK(RefusalOf(three.json.at("error").at("refused"), "storage-bounce+tcp-bounce") ==
        "MORE_COPIES");
  CheckRefused(with.east.Run({"cp", file, "west:b", "--path", "storage-bounce+nothing"}), 2,
               "INVALID_ARGUMENT", "BAD_POLICY");
  // Another path is the client's own, through its memory.
  const Json client = with.east.Do({"cp", file, "west:b", "--path", "tcp-direct"});
  CHECK(client.at("path") == "tcp-direct");
  CHECK(client.at("steps").front().at("by") == "client");
}

TEST_CASE("a file and a GPU of another node meet through slots of both") {
  Across with("[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n");
  constexpr uint64_t kBytes = 5 * kMiB + 7;
  const std::string size = std::to_string(kBytes);
  with.west.Do({"buffer", "create", "g", "--size", size, "--memory", "cuda:0"});
  const std::string payload = Payload(kBytes, 9);
  WriteFile(with.folder / "in", payload);
  const Json in = with.east.Do({"cp", with.folder / "in", "west:g", "--checksum"});
  INFO(in.dump(2));
  CHECK(in.at("path") == "storage-bounce+tcp-staged");
  CHECK(in.at("copies") == in.at("steps").size());
  CHECK(in.at("steps").back().at("to").get<std::string>().starts_with("GPU-"));
  CHECK(in.at("steps").front().at("from") == "file");
  CHECK(in.at("checksum").at("verified") == true);
  CHECK(Contents(with.west, "g") == payload);
  const Json out = with.east.Do({"cp", "west:g", with.folder / "out", "--checksum"});
  CHECK(out.at("path") == "storage-bounce+tcp-staged");
  CHECK(out.at("steps").back().at("to") == "file");
  CHECK(ReadFile(with.folder / "out") == payload);
}

TEST_CASE("a GPU's bytes go into a file that another node exports, and back") {
  const TempFolder data;
  Across with("[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n[exports.data]\npath = \"" +
              data.path().string() + "\"\nread = \"*@west\"\nwrite = \"*@west\"\n");
  constexpr uint64_t kBytes = 5 * kMiB + 7;
  const std::string size = std::to_string(kBytes);
  for (const char* name : {"g", "h"}) {
    with.west.Do({"buffer", "create", name, "--size", size, "--memory", "cuda:0"});
  }
  const std::string payload = Payload(kBytes, 9);
  with.west.Do({"cp", "-", "g"}, payload);
  const std::string file = "east:" + (data / "out");
  const Json out = with.west.Do({"cp", "g", file, "--checksum", "--sync"});
  INFO(out.dump(2));
  CHECK(out.at("path") == "storage-bounce+tcp-staged");
  CHECK(out.at("copies") == out.at("steps").size());
  CHECK(out.at("steps").front().at("from").get<std::string>().starts_with("GPU-"));
  CHECK(out.at("steps").front().at("node") == "west");
  CHECK(out.at("steps").back().at("to") == "file");
  CHECK(out.at("steps").back().at("node") == "east");
  CHECK(out.at("checksum").at("verified") == true);
  CHECK(ReadFile(data / "out") == payload);
  const Json in = with.west.Do({"cp", file, "h", "--checksum"});
  CHECK(in.at("path") == "storage-bounce+tcp-staged");
  CHECK(Contents(with.west, "h") == payload);
}

TEST_CASE("a file that becomes shorter is no success on either node") {
  Across with(kSlow);
  constexpr uint64_t kBytes = 64 * kMiB;
  with.Create("b", kBytes);
  const std::string file = with.folder / "f";
  WriteFile(file, "begins");
  std::filesystem::resize_file(file, kBytes);
  Client client = with.east.Connect();
  const os::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  Endpoint end = Must(client.PassFile("f", fd.get()));
  end.offset_bytes = 0;
  end.bytes = kBytes;
  const auto transfer =
      StartAndSeeRunning(client, {.source = end, .destination = {"west", "b", 0, kBytes}});
  {
    Frozen west(with.west);  // so that it is not over before
    std::filesystem::resize_file(file, kMiB);
  }
  for (Node* node : {&with.east, &with.west}) {
    const Json failed = node->WaitForTransfer(transfer.id.str(), "FAILED");
    INFO(failed.dump(2));
    CHECK(failed.at("error").at("code") == "DATA_LOSS");
    CHECK(failed.at("error").at("reason") == "IO_ERROR");
    CHECK(failed.at("error").at("message").get<std::string>().find("f") != std::string::npos);
  }
  // And it serves on.
  WriteFile(file, "short");
  with.east.Do({"cp", file, "west:b"});
  CHECK(Contents(with.west, "b@0+5") == "short");
}

namespace {

// A copy of 64 MiB under way, in a client of its own.
struct UnderWay {
  Across with{kSlow};
  std::unique_ptr<Process> command;
  std::string id;

  explicit UnderWay(bool into_file) {
    constexpr uint64_t kBytes = 256 * kMiB;
    with.Create("b", kBytes);
    const std::string file = with.folder / "f";
    WriteFile(file, "was here");
    if (!into_file) std::filesystem::resize_file(file, kBytes);
    const std::vector<std::string> ends = into_file ? std::vector<std::string>{"west:b", file}
                                                    : std::vector<std::string>{file, "west:b"};
    command = std::make_unique<Process>(ProcessOptions{
        .program = "onecopy",
        .arguments = {"--run-dir", with.east.run_dir(), "--json", "cp", ends[0], ends[1]}});
    WaitUntil("its bytes move", [&] {
      const Json listed = with.east.Do({"transfer", "ls"});
      if (listed.empty() || listed[0].at("state") != "RUNNING") return false;
      id = listed[0].at("id");
      return true;
    });
  }
  void CheckLeft(bool into_file) {
    // What is not whole is under no name.
    CHECK(with.Files() == 1);
    if (into_file) CHECK(ReadFile(with.folder / "f") == "was here");
    with.CheckClosed();
    CHECK(with.east.Do({"buffer", "ls"}).empty());
  }
};

}  // namespace

TEST_CASE("a copy between a file and another node is cancelled as any other") {
  const bool into_file = GENERATE(false, true);
  UnderWay copy(into_file);
  copy.with.east.Do({"transfer", "cancel", copy.id});
  CHECK(copy.command->Wait() == 130);
  for (Node* node : {&copy.with.east, &copy.with.west}) node->WaitForTransfer(copy.id, "CANCELLED");
  copy.CheckLeft(into_file);
}

TEST_CASE("a client that is killed takes its file and its copy with it") {
  const bool into_file = GENERATE(false, true);
  UnderWay copy(into_file);
  copy.command->Signal(SIGKILL);
  copy.command->Wait();
  for (Node* node : {&copy.with.east, &copy.with.west}) {
    const Json failed = node->WaitForTransfer(copy.id, "FAILED");
    CHECK(failed.at("error").at("reason") == "OWNER_DIED");
  }
  copy.with.CheckClosed();
}

TEST_CASE("a node that dies meanwhile leaves no part of a file under its name") {
  const bool into_file = GENERATE(false, true);
  UnderWay copy(into_file);
  copy.with.west.Kill();
  // Who does not decide it cannot say how it ended.
  CHECK(copy.command->Wait() == (into_file ? 5 : 8));
  const Json failed = copy.with.east.WaitForTransfer(copy.id, into_file ? "FAILED" : "UNCONFIRMED");
  CHECK(failed.at("error").at("code") == (into_file ? "UNAVAILABLE" : "DEADLINE_EXCEEDED"));
  copy.with.west.Restart();
  copy.with.east.WaitForPeer("west");
  copy.with.east.WaitForTransfer(copy.id, "FAILED");
  CHECK(copy.with.Files() == 1);
  if (into_file) CHECK(ReadFile(copy.with.folder / "f") == "was here");
}

TEST_CASE("a buffer of another node is as closed to a file as to all else") {
  REQUIRE_ROOT();
  Across with;
  for (Node* node : {&with.east, &with.west}) OpenTo(*node);
  std::filesystem::permissions(with.folder.path(), std::filesystem::perms(0777));
  CommandAs(kOwner, with.west, {"buffer", "create", "theirs", "--size", "4096"});
  WriteFile(with.folder / "f", std::string(4096, 'f'));
  std::filesystem::permissions(with.folder / "f", std::filesystem::perms(0644));
  CHECK(RunAs(kOther, with.east, {"cp", with.folder / "f", "west:theirs"}).exit_status == 3);
  CHECK(RunAs(kOther, with.east, {"cp", "west:theirs", with.folder / "stolen"}).exit_status == 3);
  CHECK(with.Files() == 1);
  CommandAs(kOwner, with.east, {"cp", with.folder / "f", "west:theirs"});
  CommandAs(kOwner, with.east, {"cp", "west:theirs", with.folder / "out"});
  struct stat facts {};
  REQUIRE(::stat((with.folder / "out").c_str(), &facts) == 0);
  CHECK(facts.st_uid == kOwner);
  CHECK(ReadFile(with.folder / "out") == std::string(4096, 'f'));
  with.CheckClosed();
}

TEST_CASE("a descriptor is no file of another node, and no end of anybody else's copy") {
  Across with;
  with.Create("b", 4096);
  with.east.Do({"buffer", "create", "own", "--size", "4096"});
  WriteFile(with.folder / "f", std::string(4096, 'f'));
  Client client = with.east.Connect();
  const os::UniqueFd fd(::open((with.folder / "f").c_str(), O_RDONLY | O_CLOEXEC));
  Endpoint elsewhere = Must(client.PassFile("f", fd.get()));
  elsewhere.node = "west";
  const auto wrong =
      client.RunTransfer({.source = elsewhere, .destination = {"west", "b", 0, 4096}});
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.status().reason() == "BAD_ENDPOINT");
  // Not to be written, wherever the bytes come from.
  const Endpoint end = Must(client.PassFile("f", fd.get()));
  const auto refused = client.RunTransfer({.source = {"west", "b", 0, 4096}, .destination = end});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == onecopy::Code::kPermissionDenied);
  CHECK(ReadFile(with.folder / "f") == std::string(4096, 'f'));
  // The name alone makes no end a file.
  const auto called = Must(client.RunTransfer(
      {.source = {"", "own", 0, 10, "/etc/passwd"}, .destination = {"west", "b", 0, 10}}));
  CHECK(called.source.file.empty());
  with.CheckClosed();
}

TEST_CASE("many files go to another node at once") {
  Across with(kSlow);
  constexpr size_t kCopies = 8;
  constexpr uint64_t kBytes = 300'001;
  Client client = with.east.Connect();
  std::vector<onecopy::TransferId> ids;
  for (size_t i = 0; i < kCopies; ++i) {
    const std::string name = "b" + std::to_string(i);
    with.Create(name, kBytes);
    WriteFile(with.folder / name, Payload(kBytes, i));
    const os::UniqueFd fd(::open((with.folder / name).c_str(), O_RDONLY | O_CLOEXEC));
    Endpoint end = Must(client.PassFile(name, fd.get()));
    end.bytes = kBytes;
    ids.push_back(Must(client.StartTransfer({.source = end, .destination = {"west", name}})).id);
  }
  for (size_t i = 0; i < kCopies; ++i) {
    const Json done = with.east.WaitForTransfer(ids[i].str(), "SUCCEEDED");
    CHECK(done.at("path") == "storage-bounce+tcp-bounce");
    CHECK(Contents(with.west, "b" + std::to_string(i)) == Payload(kBytes, i));
  }
  with.CheckClosed();
}
}  // namespace storage_nodes_test
