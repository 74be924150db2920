// File systems that do not answer, as one whose server has gone: who waits for them, and who does
// not.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "onecopy/client.h"
#include "tests/cluster/users.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "transport/os/base/unique_fd.h"

namespace hung_files_test {
namespace {

using namespace onecopy::testing;
using onecopy::Client;
using onecopy::Endpoint;
using onecopy::TransferInfo;
using onecopy::TransferState;
namespace os = onecopy::os;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kBytes = 16 * kMiB;

// A node, and a disk with a file of zeros on it.
struct OnDisk {
  explicit OnDisk(const std::string& io)
      : east("east", {.config = "[posix]\nio = \"" + io + "\"\n"}), kept(east, kBytes) {
    OpenTo(east);
    disk = Disk::Make("ext4", folder.path().string(), 64 * kMiB, why);
    if (disk == nullptr) return;
    file = os::UniqueFd(::open((disk->path() + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  }

  // The transfer has asked the frozen disk for something.
  TransferInfo StartHung(Client& client, std::optional<std::chrono::milliseconds> deadline = {}) {
    REQUIRE(disk->Freeze());
    Endpoint end = Must(client.PassFile("f", file.get()));
    end.offset_bytes = 0;
    end.bytes = kBytes;
    const TransferInfo started = Must(client.StartTransfer(
        {.source = {"", "kept", 0, kBytes}, .destination = end, .deadline = deadline}));
    east.WaitForTransfer(started.id.str(), "RUNNING");
    return started;
  }

  Node east;
  Kept kept;
  TempFolder folder;
  std::string why;
  std::unique_ptr<Disk> disk;  // null: see `why`
  os::UniqueFd file;
};

}  // namespace

TEST_CASE("a disk that does not answer holds up what is written there, and nobody else") {
  const std::string io = GENERATE("auto", "threads");
  CAPTURE(io);
  OnDisk with(io);
  if (with.disk == nullptr) ONECOPY_SKIP(with.why);
  Client client = with.east.Connect();
  const TransferInfo hung = with.StartHung(client);
  // Buffers move, lists are answered, and another user's files go to other disks.
  CheckServes(with.east);
  if (::geteuid() == 0) {
    const TempFolder theirs;
    std::filesystem::permissions(theirs.path(), std::filesystem::perms(0777));
    CommandAs(kOwner, with.east, {"buffer", "create", "theirs", "--size", "4MiB"});
    WriteFile(theirs / "in", Payload(4 * kMiB, 9));
    CommandAs(kOwner, with.east, {"cp", theirs / "in", "theirs"});
    CommandAs(kOwner, with.east, {"cp", "theirs", theirs / "out"});
    CHECK(ReadFile(theirs / "out") == Payload(4 * kMiB, 9));
  }
  CHECK(Must(client.GetTransfer(hung.id)).state == TransferState::kRunning);
  // The buffer is in use until the disk lets go of it.
  const CommandResult removed = with.east.Run({"buffer", "rm", "kept"});
  CHECK(removed.reason() == "BUFFER_IN_USE");
  REQUIRE(with.disk->Thaw());
  const TransferInfo ended = Must(client.AwaitTransfer(hung.id));
  CHECK(ended.state == TransferState::kSucceeded);
  CHECK(ReadFile(with.disk->path() + "/f") == Contents(with.east, "kept"));
  with.kept.CheckUnchanged();
}

TEST_CASE("what is over its time on such a disk ends when the disk answers, and says why") {
  const std::string io = GENERATE("auto", "threads");
  CAPTURE(io);
  OnDisk with(io);
  if (with.disk == nullptr) ONECOPY_SKIP(with.why);
  Client client = with.east.Connect();
  const TransferInfo hung = with.StartHung(client, std::chrono::milliseconds(200));
  CheckServes(with.east);
  REQUIRE(with.disk->Thaw());
  const TransferInfo ended = Must(client.AwaitTransfer(hung.id));
  // Either may have come first: the disk's answer, or the end of its time.
  if (ended.state == TransferState::kFailed) {
    CHECK(ended.error.reason() == "DEADLINE");
  } else {
    CHECK(ended.state == TransferState::kSucceeded);
  }
  with.kept.CheckUnchanged();
  with.east.Do({"buffer", "rm", "kept"});
}

TEST_CASE("a client that dies with something on such a disk leaves nothing for good") {
  OnDisk with("auto");
  if (with.disk == nullptr) ONECOPY_SKIP(with.why);
  {
    Client client = with.east.Connect();
    with.StartHung(client);
  }
  CheckServes(with.east);
  REQUIRE(with.disk->Thaw());
  WaitUntil("nothing is under way any more", [&] {
    for (const Json& transfer : with.east.Do({"transfer", "ls"})) {
      if (transfer.at("state") == "RUNNING") return false;
    }
    return true;
  });
  with.kept.CheckUnchanged();
  with.east.Do({"buffer", "rm", "kept"});
  CheckServes(with.east);
}
}  // namespace hung_files_test
