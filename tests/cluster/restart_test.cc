// Daemons that are stopped or killed, and whose buffers are there again afterwards.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/holder.h"
#include "tests/support/pattern.h"
#include "tests/support/scrape.h"

namespace restart_test {
namespace {

using namespace onecopy::testing;
using onecopy::Client;
using namespace std::chrono_literals;

constexpr uint64_t kBytes = 1'000'003;

std::string Config(const std::string& hold_for = "60s") {
  return "[restart]\nholder = \"own\"\nhold_for = \"" + hold_for +
         "\"\n[peering]\nheartbeat = \"200ms\"\nreconnect_delay_max = \"200ms\"\n"
         "[libraries]\ncuda = \"" +
         FakeCudaPath() + "\"\n";
}

// A node whose holder ends with the test.
class KeptNode : public Node {
 public:
  explicit KeptNode(const std::string& name, NodeOptions options = {.config = Config()})
      : Node(name, std::move(options)) {}
  ~KeptNode() {
    const HolderEnds ends(run_dir());
    if (process().running()) Kill();  // a daemon that serves would start another one
  }

  pid_t Holder() const { return HolderOf(run_dir()); }
  void KillHolder() {
    const pid_t holder = Holder();
    REQUIRE(holder > 0);
    ::kill(holder, SIGKILL);
    WaitUntil("the holder has ended", [&] { return HasEnded(holder); });
  }
  void KillAndRestart() {
    Kill();
    Restart();
  }
  std::string Create(const std::string& buffer, const std::string& memory = "host") {
    return Do({"buffer", "create", buffer, "--size", std::to_string(kBytes), "--memory", memory})
        .at("id");
  }
  void Fill(const std::string& buffer, uint64_t seed) {
    Do({"cp", "-", buffer}, Payload(kBytes, seed));
  }
  void CheckHas(const std::string& buffer, uint64_t seed) const {
    INFO(buffer);
    CHECK(Contents(*this, buffer) == Payload(kBytes, seed));
  }
};

Json Named(const Json& list, const std::string& name) {
  for (const Json& one : list) {
    if (one.at("name") == name) return one;
  }
  return nullptr;
}

}  // namespace

TEST_CASE(
    "buffers of a daemon that was killed are there again, with ids, bytes, views and grants") {
  KeptNode west("west");
  const std::string id = west.Create("a");
  west.Create("gpu", "cuda:1");
  west.Create("removed");
  west.Fill("a", 1);
  west.Fill("gpu", 2);
  west.Do({"buffer", "view", "part", "a@4096+8000", "--dtype", "float32", "--shape", "40,50"});
  west.Do({"buffer", "view", "removed-part", "a@0+100"});
  west.Do({"grant", "add", "a@16+1000", "--to", "1234@west", "--read"});
  west.Do({"grant", "add", "part", "--to", "1235@west", "--write", "--for", "1h"});
  const Json ended = west.Do({"grant", "add", "a", "--to", "1236@west", "--read"});
  west.Do({"grant", "rm", ended.at("id")});
  west.Do({"buffer", "rm", "removed"});
  west.Do({"buffer", "rm", "removed-part"});
  const Json buffers = west.Do({"buffer", "ls"});
  const Json grants = west.Do({"grant", "ls"});
  REQUIRE(buffers.size() == 3);
  REQUIRE(grants.size() == 2);

  // Twice, since what came back must come back again; the second time it is told to stop.
  for (const bool killed : {true, false}) {
    if (killed) {
      west.KillAndRestart();
    } else {
      CHECK(west.Stop() == 0);
      west.Restart();
    }
    CHECK(west.Do({"buffer", "ls"}) == buffers);
    CHECK(west.Do({"grant", "ls"}) == grants);
    west.CheckHas("a", 1);
    west.CheckHas(id, 1);
    west.CheckHas("gpu", 2);
    CHECK(Contents(west, "part") == Payload(kBytes, 1).substr(4096, 8000));
  }
  CHECK(west.Log().find("buffers were restored after a restart") != std::string::npos);
  // They are buffers like others.
  west.Fill("a", 3);
  west.Do({"cp", "a", "gpu"});
  west.CheckHas("gpu", 3);
  CheckRefused(west.Run({"buffer", "create", "a", "--size", "1"}), 2, "ALREADY_EXISTS",
               "NAME_TAKEN");
  west.Create("later");
  CHECK(west.Do({"buffer", "show", "later"}).at("id") != id);
}

TEST_CASE("what is removed after a restart gives its memory back, in the holder, too") {
  KeptNode west("west");
  west.Create("a");
  west.Create("b");
  CHECK(MemoryFilesOf(west.Holder()) == 3);  // and the records
  west.KillAndRestart();
  west.Do({"buffer", "rm", "a"});
  WaitUntil("the holder has let the memory go", [&] { return MemoryFilesOf(west.Holder()) == 2; });
  west.Create("c");
  CHECK(MemoryFilesOf(west.Holder()) == 3);
  west.KillAndRestart();
  CHECK(west.Do({"buffer", "ls"}).size() == 2);
  west.Do({"buffer", "rm", "b"});
  west.Do({"buffer", "rm", "c"});
  WaitUntil("the holder has let the memory go", [&] { return MemoryFilesOf(west.Holder()) == 1; });
}

TEST_CASE("another user's grant still counts after a restart, and no more than it did") {
  REQUIRE_ROOT();
  KeptNode west("west");
  OpenTo(west);
  west.Create("a");
  west.Create("secret");
  west.Fill("a", 1);
  west.Do({"grant", "add", "a@0+1000", "--to", std::to_string(kOther) + "@west", "--read"});
  west.KillAndRestart();
  const CommandResult read = RunAs(kOther, west, {"cp", "a@0+1000", "-"});
  CHECK(read.out.starts_with(Payload(kBytes, 1).substr(0, 1000)));
  const CommandResult more = RunAs(kOther, west, {"cp", "a", "-"});
  CHECK(more.exit_status == 4);
  CHECK(more.err.find("NOT_OWNER") != std::string::npos);
  const CommandResult secret = RunAs(kOther, west, {"cp", "secret", "-"});
  CHECK(secret.exit_status == 3);
  CHECK(secret.err.find("BUFFER_NOT_FOUND") != std::string::npos);
  // A user's own buffer is that user's, and its administrator's.
  CommandAs(kOther, west, {"buffer", "create", "theirs", "--size", "1000", "--memory", "host"});
  west.KillAndRestart();
  CHECK(CommandAs(kOther, west, {"buffer", "show", "theirs"}).at("owner") ==
        std::to_string(kOther) + "@west");
  CommandAs(kOther, west, {"buffer", "rm", "theirs"});
}

TEST_CASE("a grant that expires while no daemon runs has ended") {
  KeptNode west("west");
  west.Create("a");
  west.Do({"grant", "add", "a", "--to", "1234@west", "--read", "--for", "1ms"});
  west.Do({"grant", "add", "a", "--to", "1235@west", "--read", "--for", "1h"});
  west.KillAndRestart();
  const Json grants = west.Do({"grant", "ls"});
  REQUIRE(grants.size() == 1);
  CHECK(grants[0].at("to") == "1235@west");
}

TEST_CASE("a request to create that is repeated after a restart gets the buffer that it made") {
  KeptNode west("west");
  onecopy::CreateBufferRequest request{.name = "a", .bytes = kBytes};
  request.request_id = "once";
  request.memory = "host";
  const auto made = Must(west.Connect().CreateBuffer(request));
  west.KillAndRestart();
  CHECK(Must(west.Connect().CreateBuffer(request)).id == made.id);
  request.bytes = 1;
  CHECK(west.Connect().CreateBuffer(request).status().reason() == "REQUEST_ID_REUSED");
}

TEST_CASE("calls of a client wait for a daemon that comes back with its buffers") {
  KeptNode west("west");
  Client client = west.Connect();
  west.Create("a");
  onecopy::CreateBufferRequest request;
  request.name = "b";
  request.memory = "host";
  request.bytes = kBytes;
  for (const bool killed : {true, false}) {
    if (killed) {
      west.Kill();
    } else {
      CHECK(west.Stop() == 0);
    }
    auto listed = std::async(std::launch::async, [&] { return client.ListBuffers(); });
    auto created = std::async(std::launch::async, [&] { return client.CreateBuffer(request); });
    west.Restart();
    CHECK(Must(listed.get()).size() >= 1);
    REQUIRE_OK(created.get().status());
    request.name = "c";
  }
  CHECK(Must(client.ListBuffers()).size() == 3);
}

TEST_CASE("a call ends by its deadline while the daemon is gone") {
  KeptNode west("west");
  Client client = west.Connect();
  west.Create("a");
  west.Create("b");
  west.Kill();
  onecopy::TransferRequest request;
  request.source = {"", "a", {}, {}};
  request.destination = {"", "b", {}, {}};
  request.deadline = 1ms;
  const auto ended = client.RunTransfer(request);
  REQUIRE_FALSE(ended.ok());
  CHECK(ended.status().reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("peers use a buffer after the restart of its node as before") {
  KeptNode west("west");
  KeptNode east("east", {.peers = {west.AsPeer()}, .config = Config()});
  east.WaitForPeer("west");
  const std::string id = west.Create("a");
  west.Fill("a", 1);
  east.Create("b");
  east.Do({"cp", "west:a", "b"});
  west.KillAndRestart();
  WaitUntil("east reads again", [&] {
    return east.Run({"cp", "west:" + id, "b"}).exit_status == 0;
  });
  east.CheckHas("b", 1);
  // Of another node's user.
  east.Do({"buffer", "create", "west:far", "--size", "1000", "--memory", "host"});
  west.KillAndRestart();
  WaitUntil("east sees it again", [&] {
    return east.Run({"buffer", "show", "west:far"}).exit_status == 0;
  });
  east.Do({"buffer", "rm", "west:far"});
}

TEST_CASE("a program that maps a buffer keeps its bytes, which the next daemon moves") {
  KeptNode west("west");
  west.Create("a");
  west.Create("b");
  Client client = west.Connect();
  auto mapped = Must(client.MapBuffer("a"));
  auto* const bytes = static_cast<volatile unsigned char*>(mapped.data());
  bytes[7] = 77;
  west.KillAndRestart();
  CHECK_FALSE(mapped.CheckValid().ok());
  CHECK(Contents(west, "a@7+1") == "\x4d");
  bytes[7] = 78;  // the same memory
  CHECK(Contents(west, "a@7+1") == "\x4e");
  Client again = west.Connect();
  auto other = Must(again.MapBuffer("a"));
  CHECK(static_cast<unsigned char*>(other.data())[7] == 78);
  Must(other.Close());
  // Removed, its pages are the machine's again, whoever still maps it.
  west.Do({"buffer", "rm", "a"});
  CHECK(bytes[7] == 0);
}

TEST_CASE("the holder that is killed is replaced, and what it held is held again") {
  KeptNode west("west");
  west.Create("a");
  west.Fill("a", 1);
  west.KillHolder();
  WaitUntil("another holder has the buffer and the records",
            [&] { return west.Holder() > 0 && MemoryFilesOf(west.Holder()) == 2; });
  west.Create("b");
  west.Fill("b", 2);
  west.KillAndRestart();
  west.CheckHas("a", 1);
  west.CheckHas("b", 2);
  // Both at once: nothing is left, and nothing keeps the next daemon from serving.
  west.KillHolder();
  west.Kill();
  if (const pid_t next = west.Holder(); next > 0) ::kill(next, SIGKILL);
  west.Restart();
  CHECK(west.Do({"buffer", "ls"}).size() <= 2);
}

TEST_CASE("memory that no daemon asks for is given back, and the holder ends") {
  KeptNode west("west", {.config = Config("1s")});
  west.Create("a");
  const pid_t holder = west.Holder();
  REQUIRE(holder > 0);
  west.Kill();
  WaitUntil("the holder has ended", [&] { return HasEnded(holder); });
  CHECK_FALSE(std::filesystem::exists(west.run_dir() + "/holder.sock"));
  west.Restart();
  CHECK(west.Do({"buffer", "ls"}).empty());
  west.Create("a");
  west.KillAndRestart();
  CHECK(west.Do({"buffer", "ls"}).size() == 1);
}

TEST_CASE("a daemon of another name gets nothing of the one before") {
  TempFolder folder;
  const std::string run_dir = folder / "run";
  {
    Node west("west", {.config = Config(), .run_dir = run_dir});
    west.Do({"buffer", "create", "a", "--size", "1000", "--memory", "host"});
  }
  KeptNode east("east", {.config = Config(), .run_dir = run_dir});
  CHECK(east.Do({"buffer", "ls"}).empty());
  CHECK(east.Log().find("it was node west, and this is east") != std::string::npos);
  CHECK(MemoryFilesOf(east.Holder()) == 1);
}

TEST_CASE("a buffer whose GPU is not there is held for a start at which it is") {
  TempFolder folder;
  const std::string run_dir = folder / "run";
  const HolderEnds ends(run_dir);
  const std::string held = "[restart]\nholder = \"own\"\nhold_for = \"60s\"\n";
  const std::string with_gpus = held + "[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n";
  Json buffers;
  Json grants;
  {
    Node west("west", {.config = with_gpus, .run_dir = run_dir});
    west.Do({"buffer", "create", "gpu", "--size", std::to_string(kBytes), "--memory", "cuda:1"});
    west.Do({"buffer", "create", "host", "--size", std::to_string(kBytes), "--memory", "host"});
    west.Do({"cp", "-", "gpu"}, Payload(kBytes, 2));
    west.Do({"buffer", "view", "part", "gpu@4096+8000"});
    west.Do({"grant", "add", "part", "--to", "1234@west", "--read"});
    buffers = west.Do({"buffer", "ls"});
    grants = west.Do({"grant", "ls"});
    west.Kill();
  }
  {
    // A library that is none: as a driver that does not load after an upgrade.
    Node west("west", {.config = held + "[libraries]\ncuda = \"/dev/null\"\n", .run_dir = run_dir});
    CHECK(west.Do({"buffer", "ls"}).size() == 1);
    CHECK(west.Do({"grant", "ls"}).empty());
    CHECK(west.Log().find("a buffer cannot be restored now, and is held for the next start "
                          "buffer=gpu") != std::string::npos);
    // Also by another holder.
    const pid_t holder = HolderOf(run_dir);
    ::kill(holder, SIGKILL);
    WaitUntil("another holder has all of it", [&] {
      const pid_t next = HolderOf(run_dir);
      return next > 0 && next != holder && MemoryFilesOf(next) == 3;
    });
    west.Do({"buffer", "create", "other", "--size", "1000", "--memory", "host"});
    west.Kill();
  }
  Node west("west", {.config = with_gpus, .run_dir = run_dir});
  CHECK(west.Do({"buffer", "show", "other"}).at("bytes") == 1000);
  west.Do({"buffer", "rm", "other"});
  CHECK(west.Do({"buffer", "ls"}) == buffers);
  CHECK(west.Do({"grant", "ls"}) == grants);
  CHECK(Contents(west, "gpu") == Payload(kBytes, 2));
  west.Kill();
}

TEST_CASE("without a holder the daemon serves, and says that its buffers will not survive") {
  TempFolder folder;
  Node west("west", {.config = "[restart]\nholder = \"" + (folder / "none.sock") + "\"\n",
                     .metrics = "127.0.0.1:0"});
  const auto lost = [&] { return ScrapeOf(west.metrics()).Sum("onecopy_holder_lost") > 0; };
  CHECK(lost());
  CHECK(west.Log().find("buffers will not survive a restart of the daemon") != std::string::npos);
  west.Do({"buffer", "create", "a", "--size", "1000", "--memory", "host"});
  CHECK(west.Log().find("a buffer will not survive a restart of the daemon buffer=a") !=
        std::string::npos);
  // It is started later, as a service may be.
  Process holder({.program = "onecopy-holder", .arguments = {folder / "none.sock"}});
  WaitUntil("the buffer is held", [&] { return MemoryFilesOf(holder.pid()) == 2; });
  WaitUntil("the metrics say so", [&] { return !lost(); });
  WaitUntil("the log says so", [&] {
    return west.Log().find("buffers survive a restart of the daemon again") != std::string::npos;
  });
  west.Kill();
  west.Restart();
  CHECK(west.Do({"buffer", "ls"}).size() == 1);
}

TEST_CASE("killed in the middle of creating and removing, a daemon keeps what it has answered") {
  const uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  KeptNode west("west");
  std::map<std::string, uint64_t> there;  // by name: the seed of its bytes
  std::map<std::string, std::string> ids;
  uint64_t next = 0;
  for (int round = 0; round < 4; ++round) {
    std::string unsure;  // asked for, and not answered
    // In the middle of the request after so many answers.
    std::atomic<uint64_t> answered{0};
    std::thread killer([&, most = 1 + random() % 60] {
      for (uint64_t now = 0; now < most; now = answered.load()) answered.wait(now);
      west.process().Signal(SIGKILL);
    });
    {
      Client client = west.Connect();
      while (true) {
        if (there.size() > 12) {
          unsure = std::next(there.begin(), static_cast<int>(random() % there.size()))->first;
          if (!client.DeleteBuffer(unsure).ok()) break;
          there.erase(unsure);
          answered.fetch_add(1);
          answered.notify_one();
          continue;
        }
        unsure = "buffer-" + std::to_string(++next);
        onecopy::CreateBufferRequest request{.name = unsure, .bytes = 4096};
        request.memory = "host";
        const auto made = client.CreateBuffer(request);
        if (!made.ok()) break;
        auto mapped = client.MapBuffer(unsure);
        if (mapped.ok()) Fill(static_cast<std::byte*>(mapped->data()), 4096, next);
        there[unsure] = mapped.ok() ? next : 0;
        ids[unsure] = made->id;
        if (!mapped.ok()) break;
        answered.fetch_add(1);
        answered.notify_one();
      }
    }
    answered = UINT64_MAX;  // whatever ended the loop
    answered.notify_one();
    killer.join();
    west.process().Wait();
    west.Restart();
    Client client = west.Connect();
    const Json listed = west.Do({"buffer", "ls"});
    for (const auto& [name, pattern] : there) {
      if (name == unsure) continue;
      INFO(name << " in round " << round);
      const Json found = Named(listed, name);
      REQUIRE(found.is_object());
      CHECK(found.at("id") == ids[name]);
      if (pattern == 0) continue;
      const auto mapped = Must(client.MapBuffer(name));
      CHECK(FirstWrong(static_cast<const std::byte*>(mapped.data()), 4096, pattern) == 4096);
    }
    for (const Json& one : listed) {
      const std::string name = one.at("name");
      if (name != unsure) CHECK(there.contains(name));
      // Whether it is there is known now.
      if (name == unsure) there.try_emplace(name, 0);
      ids[name] = one.at("id");
    }
    if (Named(listed, unsure).is_null()) there.erase(unsure);
  }
}

}  // namespace restart_test
