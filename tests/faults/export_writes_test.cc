// Files of another node that are written: disks that are full or fail, nodes that go, peers that
// cheat. Whatever happens, the name stands for what it stood for, and nothing is left beside it.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "tests/cluster/receipts.h"
#include "tests/faults/hostile_peer.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/failing_calls.h"
#include "transport/os/base/unique_fd.h"

namespace export_writes_test {
namespace {

namespace v1 = onecopy::v1;
namespace fs = std::filesystem;
using namespace onecopy::testing;
using onecopy::Client;

constexpr uint64_t kBytes = uint64_t{8} << 20;
constexpr uint64_t kLong = uint64_t{1} << 30;
constexpr uint32_t kUid = 1001;

const std::string kQuick = std::string(kSlowLanes) +
                           "[peering]\nheartbeat = \"200ms\"\nreconnect_delay_max = \"200ms\"\n"
                           "[transfers]\nstall_timeout = \"2s\"\nresume_for = \"0s\"\n";

std::set<std::string> NamesIn(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// West exports a folder that has the file "old"; east has "b" of 8 MiB, and "long".
struct Writing {
  explicit Writing(const std::string& config = {}, const std::function<void()>& in_child = {},
                   std::unique_ptr<TempFolder> at = std::make_unique<TempFolder>())
      : root(std::move(at)),
        west("west", {.config = config + "[exports.data]\npath = \"" + root->path().string() +
                                "\"\nwrite = \"*@east 1001@mallory *@trudy\"\n",
                      .in_child = in_child}),
        east("east", {.peers = {west.AsPeer()}, .config = config}),
        kept(east) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
    east.Do({"buffer", "create", "b", "--size", std::to_string(kBytes)});
    east.Do({"buffer", "create", "long", "--size", std::to_string(kLong)});
    east.Do({"cp", "-", "b"}, payload);
    WriteFile(Seen() + "/old", payload.substr(0, 3));
  }

  std::string At(const std::string& name) const { return "west:" + (*root / name); }
  // As the file's node sees it.
  std::string Seen() const {
    return "/proc/" + std::to_string(const_cast<Node&>(west).process().pid()) + "/" + "root" +
           root->path().string();
  }
  // A long one into that file, of which bytes move on both nodes.
  onecopy::TransferId Begin(Client& client, const std::string& name) {
    const auto transfer = StartAndSeeRunning(
        client,
        {.source = {.buffer = "long"}, .destination = {.node = "west", .file = *root / name}});
    Client there = west.Connect();
    WaitUntil("bytes arrive", [&] { return Must(there.GetTransfer(transfer.id)).bytes_done > 0; });
    return transfer.id;
  }
  // Nothing but what was there, and all that was opened is closed.
  void CheckAsItWas(const std::set<std::string>& names = {"old"}) {
    WaitUntil("nothing else is left", [&] { return NamesIn(Seen()) == names; });
    CHECK(ReadFile(Seen() + "/old") == payload.substr(0, 3));
    WaitUntil("the files are closed", [&] {
      const std::string fds = "/proc/" + std::to_string(west.process().pid()) + "/fd";
      for (const auto& entry : fs::directory_iterator(fds)) {
        std::error_code gone;
        if (fs::read_symlink(entry.path(), gone).string().starts_with(root->path().string())) {
          return false;
        }
      }
      return true;
    });
  }
  // And both still do so.
  void CheckServe() {
    kept.CheckUnchanged();
    for (const Node* node : {&east, &west}) CheckServes(*node);
    east.Do({"cp", "b@0+1000", At("small"), "--checksum"});
    CHECK(ReadFile(Seen() + "/small") == payload.substr(0, 1000));
  }

  std::unique_ptr<TempFolder> root;
  Node west;
  Node east;
  const Kept kept;
  const std::string payload = Payload(kBytes, 3);
};

void EnterSmallDisk(const std::string& at) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("small", at.c_str(), "tmpfs", 0, "size=2m") != 0) {
    ::_exit(126);
  }
}

// Mallory's order to west to move a byte of its buffer into a file.
struct Cheating : Writing {
  HostilePeer mallory{west};

  Cheating() {
    west.Do({"buffer", "create", "secret", "--size", "65536"});
    west.Do({"cp", "-", "secret"}, Payload(65536, 11));
    west.Do({"grant", "add", "secret@7+1", "--to", "1001@mallory", "--read"});
  }

  v1::StartRequest OneByte(const std::string& name) {
    v1::ReserveResponse reservation;
    const grpc::Status answered = mallory.Reserve(kUid, {"secret", 7, 1}, "west", &reservation);
    INFO(answered.error_message());
    REQUIRE(answered.ok());
    v1::StartRequest request;
    request.set_transfer_id(mallory.transfer_id());
    request.set_uid(kUid);
    *request.mutable_reservation() = reservation;
    request.mutable_destination()->set_file(*root / name);
    return request;
  }
  grpc::Status Ask(const v1::StartRequest& request, HostilePeer& who) {
    v1::Transfer started;
    grpc::Status answered = who.stub().Start(who.Context().get(), request, &started);
    if (answered.ok() && !request.validate_only()) who.WaitForEnd(started.id());
    return answered;
  }
  void Refuses(const v1::StartRequest& request, grpc::StatusCode code) {
    const grpc::Status answered = Ask(request, mallory);
    INFO(answered.error_message());
    CHECK(answered.error_code() == code);
  }
};

}  // namespace

TEST_CASE("a full disk of the file's node is told before a byte moves") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root, where it may mount, can make a small disk");
  auto root = std::make_unique<TempFolder>();
  const std::string at = root->path().string();
  Writing with(
      {}, [at] { EnterSmallDisk(at); }, std::move(root));
  const std::string to = GENERATE("new", "old", "old@0");
  CAPTURE(to);
  const CommandResult refused = with.east.Run({"cp", "b", with.At(to)});
  CheckRefusedNaming(refused, 9, "RESOURCE_EXHAUSTED", "NO_SPACE",
                     to == std::string("new") ? "new" : "old");
  CHECK(RemedyOf(refused).find("space") != std::string::npos);
  with.CheckAsItWas();
  with.CheckServe();
}

TEST_CASE("a disk that fails under the file's node is told, and what was there stays") {
  struct Failure {
    unsigned call;
    unsigned error;
    const char* code;
    const char* reason;
  };
  const Failure failure =
      GENERATE(values<Failure>({{SYS_pwrite64, EIO, "INTERNAL", "IO_ERROR"},
                                {SYS_pwrite64, ENOSPC, "RESOURCE_EXHAUSTED", "NO_SPACE"},
                                {SYS_pwrite64, EDQUOT, "RESOURCE_EXHAUSTED", "NO_SPACE"},
                                {SYS_fsync, EIO, "INTERNAL", "IO_ERROR"},
                                {SYS_fsync, ENOSPC, "RESOURCE_EXHAUSTED", "NO_SPACE"},
                                {SYS_linkat, ENOSPC, "RESOURCE_EXHAUSTED", "NO_SPACE"},
                                {SYS_renameat, EDQUOT, "RESOURCE_EXHAUSTED", "NO_SPACE"}}));
  CAPTURE(failure.call, failure.error);
  // Small pieces still go.
  constexpr uint32_t kLeast = 64 << 10;
  const bool writes = failure.call == SYS_pwrite64;
  Writing with("[posix]\nio = \"threads\"\n", [failure, writes] {
    if (!FailCalls(failure.call, failure.error, writes ? kLeast : 0)) ::_exit(126);
  });
  for (const char* name : {"new", "old"}) {
    const CommandResult refused = with.east.Run({"cp", "b", with.At(name), "--sync"});
    INFO(refused.out);
    CHECK(refused.exit_status != 0);
    CHECK(refused.json.at("error").at("code") == failure.code);
    CHECK(refused.reason() == failure.reason);
    CHECK(refused.message().find(*with.root / name) != std::string::npos);
  }
  with.CheckAsItWas();
  const bool names = failure.call == SYS_linkat || failure.call == SYS_renameat;
  for (const Node* node : {&with.east, &with.west}) CheckServes(*node);
  if (!names) with.CheckServe();
}

TEST_CASE("a copy into a file that is cancelled leaves nothing") {
  Writing with(kSlowLanes);
  const std::string name = GENERATE("new", "old");
  Client client = with.east.Connect();
  const onecopy::TransferId id = with.Begin(client, name);
  SECTION("by who ordered it") { Must(client.CancelTransfer(id)); }
  SECTION("by its deadline") {
    const CommandResult ended = with.east.Run({"cp", "long", with.At("late"), "--deadline", "1s"});
    CHECK(ended.reason() == "DEADLINE");
    Must(client.CancelTransfer(id));
  }
  for (const Node* node : {&with.west, &with.east}) node->WaitForTransfer(id.str(), "CANCELLED");
  with.CheckAsItWas();
  with.CheckServe();
}

TEST_CASE("a copy into a file whose source's node is killed fails, and leaves nothing") {
  Writing with(kQuick);
  Client client = with.east.Connect();
  const onecopy::TransferId id = with.Begin(client, "new");
  with.east.Kill();
  const Json failed = with.west.WaitForTransfer(id.str(), "FAILED");
  CHECK(failed.at("error").at("code") == "UNAVAILABLE");
  CHECK(failed.at("error").at("message").get<std::string>().find("east") != std::string::npos);
  with.CheckAsItWas();
  CheckServes(with.west);
}

TEST_CASE("a file's node that is killed leaves nothing, and the others hear of it") {
  Writing with(kQuick);
  const std::string root = with.root->path().string();
  const onecopy::os::UniqueFd unnamed(::open(root.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!unnamed) ONECOPY_SKIP("the file system of " + root + " has no files without a name");
  Client client = with.east.Connect();
  const onecopy::TransferId id = with.Begin(client, "new");
  with.west.Kill();
  const Json doubtful = with.east.WaitForTransfer(id.str(), "UNCONFIRMED");
  CHECK(doubtful.at("error").at("message").get<std::string>().find("west") != std::string::npos);
  // Not even while nobody is there who could remove it.
  CHECK(NamesIn(root) == std::set<std::string>{"old"});
  with.west.Restart();
  const Json failed = with.east.WaitForTransfer(id.str(), "FAILED");
  CHECK(failed.at("error").at("reason") == "PEER_RESTARTED");
  with.east.WaitForPeer("west");
  with.west.WaitForPeer("east");
  with.CheckAsItWas();
  with.CheckServe();
}

TEST_CASE("a file's node that stops answering fails the copy, and leaves nothing once it goes on") {
  Writing with(kQuick);
  Client client = with.east.Connect();
  const onecopy::TransferId id = with.Begin(client, "new");
  Frozen frozen(with.west);
  const Json doubtful = with.east.WaitForTransfer(id.str(), "UNCONFIRMED");
  CHECK(doubtful.at("error").at("message").get<std::string>().find("west") != std::string::npos);
  frozen.Thaw();
  with.east.WaitForTransfer(id.str(), "FAILED");
  with.east.WaitForPeer("west");
  with.west.WaitForPeer("east");
  with.CheckAsItWas();
  with.CheckServe();
}

TEST_CASE("a daemon that shuts down leaves nothing of the files that it ends") {
  Writing with(std::string(kQuick) + "drain_timeout = \"200ms\"\n");
  Client client = with.east.Connect();
  const onecopy::TransferId id = with.Begin(client, "new");
  const std::string root = with.root->path().string();
  CHECK(with.west.Stop() == 0);
  CHECK(NamesIn(root) == std::set<std::string>{"old"});
  WaitUntil("east has heard of it", [&] {
    const auto seen = Must(client.GetTransfer(id));
    return !seen.error.ok();
  });
}

TEST_CASE("a peer writes no file beyond its rights, whatever it says") {
  Cheating with;
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  constexpr auto kDenied = grpc::StatusCode::PERMISSION_DENIED;
  const std::string root = with.root->path().string();
  v1::StartRequest lie = with.OneByte("loot");
  SECTION("another user of its node") {
    lie.set_uid(1002);
    with.Refuses(lie, kDenied);
  }
  SECTION("paths that lead elsewhere") {
    for (const std::string& path :
         {root + "/../loot", root + "/./loot", root + "//loot", "loot" + root, root + "/loot/",
          root + std::string("/l\0t", 4)}) {
      lie.mutable_destination()->set_file(path);
      with.Refuses(lie, kInvalid);
    }
    for (const std::string& path : {root, root + "2/loot", std::string("/etc/loot")}) {
      lie.mutable_destination()->set_file(path);
      with.Refuses(lie, kDenied);
    }
  }
  SECTION("a file and a buffer") {
    lie.mutable_destination()->set_buffer("secret");
    with.Refuses(lie, kInvalid);
  }
  SECTION("files for several") {
    *lie.add_more_destinations() = lie.destination();
    with.Refuses(lie, kInvalid);
  }
  SECTION("a part of a series") {
    lie.mutable_series()->set_id("series");
    CHECK_FALSE(with.Ask(lie, with.mallory).ok());
  }
  SECTION("more bytes than its ticket is for") {
    lie.mutable_reservation()->mutable_source()->set_offset_bytes(0);
    lie.mutable_reservation()->mutable_source()->set_bytes(65536);
    (void)with.Ask(lie, with.mallory);
    // What counts is what the ticket says.
    CHECK(NamesIn(root) == std::set<std::string>{"loot", "old"});
    CHECK(ReadFile(root + "/loot") == Payload(65536, 11).substr(7, 1));
    fs::remove(root + "/loot");
  }
  SECTION("more bytes than any file has") {
    lie.mutable_reservation()->mutable_source()->set_bytes(~uint64_t{0});
    CHECK_FALSE(with.Ask(lie, with.mallory).ok());
    lie.mutable_reservation()->mutable_source()->set_bytes(1);
    lie.mutable_destination()->set_file(root + "/old");
    lie.mutable_destination()->set_offset_bytes(~uint64_t{0});
    CHECK_FALSE(with.Ask(lie, with.mallory).ok());
  }
  SECTION("a range that is not as long as the source") {
    lie.mutable_destination()->set_file(root + "/old");
    lie.mutable_destination()->set_offset_bytes(0);
    lie.mutable_destination()->set_bytes(3);
    with.Refuses(lie, kInvalid);
  }
  SECTION("another node's ticket, or its transfer's id") {
    HostilePeer trudy(with.west, "trudy");
    CHECK_FALSE(with.Ask(lie, trudy).ok());
    lie.clear_reservation();
    lie.mutable_reservation()->mutable_source()->set_node("trudy");
    lie.mutable_reservation()->mutable_source()->set_offset_bytes(0);
    lie.mutable_reservation()->mutable_source()->set_bytes(1);
    lie.mutable_reservation()->set_memory("host");
    CHECK_FALSE(with.Ask(lie, trudy).ok());
  }
  with.CheckAsItWas();
  CHECK(std::distance(fs::directory_iterator(root), {}) == 1);
  with.CheckServe();
}

TEST_CASE("an id is one transfer's, also where that writes a file") {
  Cheating with;
  const std::string root = with.root->path().string();
  // Of one that ran.
  const v1::StartRequest once = with.OneByte("once");
  REQUIRE(with.Ask(once, with.mallory).ok());
  v1::StartRequest again = with.OneByte("again");
  again.set_transfer_id(once.transfer_id());
  CHECK_FALSE(with.Ask(again, with.mallory).ok());
  CHECK_FALSE(with.Ask(once, with.mallory).ok());
  CHECK(NamesIn(root) == std::set<std::string>{"old", "once"});
  // Of one of another node's that runs: that goes on.
  Client client = with.east.Connect();
  const onecopy::TransferId running = with.Begin(client, "running");
  v1::StartRequest stolen = with.OneByte("stolen");
  stolen.set_transfer_id(running.str());
  CHECK_FALSE(with.Ask(stolen, with.mallory).ok());
  v1::CancelPeerTransferRequest cancel;
  cancel.set_transfer_id(running.str());
  cancel.set_uid(kUid);
  v1::Transfer cancelled;
  CHECK_FALSE(
      with.mallory.stub().CancelTransfer(with.mallory.Context().get(), cancel, &cancelled).ok());
  CHECK(Must(client.GetTransfer(running)).error.ok());
  Must(client.CancelTransfer(running));
  with.west.WaitForTransfer(running.str(), "CANCELLED");
  with.CheckAsItWas({"old", "once"});
}

TEST_CASE("a plan for a file leaves nothing, and tells nobody more than a copy would") {
  Cheating with;
  v1::StartRequest plan = with.OneByte("plan");
  plan.set_validate_only(true);
  plan.mutable_reservation()->mutable_source()->set_buffer("secret");
  CHECK(with.Ask(plan, with.mallory).ok());
  with.CheckAsItWas();
  plan.set_uid(1002);
  with.Refuses(plan, grpc::StatusCode::PERMISSION_DENIED);
  with.CheckAsItWas();
}

TEST_CASE("a daemon that is too old to write files is not asked to") {
  const Node east("east");
  east.Do({"buffer", "create", "b", "--size", "4096"});
  HostilePeer caller(east, "older");
  const HostileNode node("older", "", grpc::InsecureServerCredentials());
  v1::HelloRequest request;
  node.Introduce(request.mutable_self());
  v1::HelloResponse response;
  REQUIRE(caller.stub().Hello(caller.Context().get(), request, &response).ok());
  CHECK(response.self().writes_files());
  east.WaitForPeer("older");
  for (const auto& words : {std::vector<std::string>{"cp", "b", "older:/data/f"},
                            {"cp", "b", "older:/data/f", "--dry-run"},
                            {"explain", "b", "older:/data/f"}}) {
    CheckRefusedNaming(east.Run(words), 7, "FAILED_PRECONDITION", "NOT_APPLICABLE", "too old");
  }
  CHECK(east.Do({"buffer", "show", "b"}).at("transfers") == 0);
}
}  // namespace export_writes_test
