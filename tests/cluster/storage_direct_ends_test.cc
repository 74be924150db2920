// Transfers that a drive makes, and that end early, or beside others: what is under way ends before
// its memory and its file go, which the fake library sees to, and the evidence says what is whose.
#include <grp.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>

#include "tests/cluster/users.h"
#include "tests/cluster/with_drive.h"

namespace storage_direct_ends_test {
namespace {

using namespace onecopy::testing;

// A copy that waits inside the library, with its first slice proven.
struct Held : WithDrive {
  explicit Held(bool batches, std::vector<std::string> more = {}, uid_t uid = 0,
                const std::string& is = {})
      : WithDrive(is) {
    Close();
    std::vector<std::string> arguments = {"--run-dir", node.run_dir(), "--json",
                                          "cp",        folder / "in",  "g"};
    if (batches) {
      WriteFile(folder / "list", List());
      more.insert(more.end(), {"--ranges", folder / "list"});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    if (uid != 0) {
      OpenTo(node);
      std::filesystem::permissions(folder.path(), std::filesystem::perms(0777));
      std::filesystem::permissions(gate.path(), std::filesystem::perms(0777));
      std::filesystem::permissions(folder / "in", std::filesystem::perms(0644));
      node.Do({"buffer", "rm", "g"});
      CommandAs(
          uid, node,
          {"buffer", "create", "g", "--size", std::to_string(kDriveBytes), "--memory", "cuda:0"});
    }
    command = std::make_unique<Process>(
        ProcessOptions{.program = "onecopy",
                       .arguments = arguments,
                       .in_child = uid == 0 ? std::function<void()>() : BecomeUser(uid)});
    AwaitHeld();
    id = node.Do({"transfer", "ls"})[0].at("id");
  }

  // All of the file, in whole batches.
  static std::string List() {
    constexpr uint64_t kSlot = 32 * 1024;
    constexpr uint64_t kSlots = kDriveBytes / kSlot;
    std::string list;
    for (uint64_t i = 0; i < kSlots; ++i) {
      const auto end = [](uint64_t slot) {
        return R"({"offset": )" + std::to_string(slot * kSlot) + R"(, "bytes": 32768})";
      };
      list += R"({"source": )" + end((i * 7919) % kSlots) + R"(, "destination": )" + end(i) + "}\n";
    }
    return list;
  }
  // The memory and the file are there for others again, and nothing of the copy is left.
  void CheckServesOn() {
    Open();
    node.Do(
        {"buffer", "create", "after", "--size", std::to_string(kDriveBytes), "--memory", "cuda:0"});
    CheckOneCopy(node.Do({"cp", folder / "in", "after"}), "from");
    CHECK(Contents(node, "after") == payload);
    CHECK(node.Stop() == 0);
  }

  std::unique_ptr<Process> command;
  std::string id;
};

}  // namespace

TEST_CASE("a copy that is cancelled lets go when the library has") {
  Held copy(false);
  // The library moves on only then: until that the copy has not ended.
  const onecopy::TransferInfo asked =
      Must(copy.node.Connect().CancelTransfer(onecopy::TransferId(copy.id)));
  CHECK(asked.state == onecopy::TransferState::kRunning);
  copy.Open();
  CHECK(copy.command->Wait() == 130);
  copy.node.WaitForTransfer(copy.id, "CANCELLED");
  copy.CheckServesOn();
}

TEST_CASE("batches of a copy that is cancelled are cancelled in the library") {
  Held copy(true);
  copy.node.Do({"transfer", "cancel", copy.id});
  // With the drive still silent.
  CHECK(copy.command->Wait() == 130);
  copy.node.WaitForTransfer(copy.id, "CANCELLED");
  copy.CheckServesOn();
}

TEST_CASE("a deadline ends batches in the library, too") {
  Held copy(true, {"--deadline", "2s"});
  CHECK(copy.command->Wait() == 8);
  CHECK(copy.node.WaitForTransfer(copy.id, "FAILED").at("error").at("code") == "DEADLINE_EXCEEDED");
  copy.CheckServesOn();
}

TEST_CASE("a client that is killed takes its copy with it, when the library has let go") {
  Held copy(true);
  copy.command->Signal(SIGKILL);
  copy.command->Wait();
  const Json failed = copy.node.WaitForTransfer(copy.id, "FAILED");
  CHECK(failed.at("error").at("reason") == "OWNER_DIED");
  copy.CheckServesOn();
}

TEST_CASE("a buffer that is removed goes when the library has let go of it") {
  Held copy(true);
  copy.node.Do({"buffer", "rm", "g", "--force"});
  CHECK(copy.command->Wait() != 0);
  copy.CheckServesOn();
}

TEST_CASE(
    "a file that becomes shorter meanwhile is told of, and one in its place changes nothing") {
  const bool batches = GENERATE(false, true);
  SECTION("shorter") {
    Held copy(batches);
    std::filesystem::resize_file(copy.folder / "in", 20 * kMiB);
    copy.Open();
    CHECK(copy.command->Wait() == 6);
    const Json failed = copy.node.WaitForTransfer(copy.id, "FAILED");
    CHECK(failed.at("error").at("reason") == "IO_ERROR");
    CHECK(failed.at("error").at("message").get<std::string>().find("ended at byte") !=
          std::string::npos);
    WriteFile(copy.folder / "in", copy.payload);
    copy.CheckServesOn();
  }
  SECTION("another in its place") {
    Held copy(batches);
    WriteFile(copy.folder / "other", std::string(kDriveBytes, 'x'));
    std::filesystem::rename(copy.folder / "in", copy.folder / "was");
    std::filesystem::rename(copy.folder / "other", copy.folder / "in");
    copy.Open();
    CHECK(copy.command->Wait() == 0);
    copy.node.WaitForTransfer(copy.id, "SUCCEEDED");
    if (!batches) CHECK(Contents(copy.node, "g") == copy.payload);
    std::filesystem::rename(copy.folder / "was", copy.folder / "in");
    copy.CheckServesOn();
  }
}

TEST_CASE("counters that several transfers share are told of, and prove what all of them did") {
  Held copy(false);
  copy.node.Do({"buffer", "create", "h", "--size", "4MiB", "--memory", "cuda:0"});
  WriteFile(copy.folder / "small", copy.payload.substr(0, 4 * kMiB));
  const Json beside = copy.node.Do({"cp", copy.folder / "small", "h"});
  CheckOneCopy(beside, "from", 4 * kMiB);
  const auto shared = [](const Json& receipt) {
    const std::string evidence = receipt.at("evidence").at("storage");
    return evidence.find("are also those of 1 other transfer meanwhile") != std::string::npos;
  };
  CHECK(shared(beside));
  copy.Open();
  CHECK(copy.command->Wait() == 0);
  const Json first = copy.node.WaitForTransfer(copy.id, "SUCCEEDED");
  CheckOneCopy(first, "from");
  CHECK(shared(first));
  // Alone again.
  CHECK_FALSE(shared(copy.node.Do({"cp", copy.folder / "small", "h"})));
}

TEST_CASE("what goes through host memory beside a transfer makes both count so, and that is told") {
  Held copy(false, {}, 0, "odd-by-host");
  copy.node.Do({"buffer", "create", "h", "--size", "8MiB", "--memory", "cuda:0"});
  WriteFile(copy.folder / "odd", copy.payload.substr(0, 4 * kMiB + 77));
  const Json odd = copy.node.Do({"cp", copy.folder / "odd", "h"});
  CHECK(odd.at("path") == "storage-bounce");
  CHECK(RefusalOfDirect(odd).at("reason") == "COMPATIBILITY_MODE");
  copy.Open();
  CHECK(copy.command->Wait() == 0);
  const Json first = copy.node.WaitForTransfer(copy.id, "SUCCEEDED");
  INFO(first.dump(2));
  CHECK(first.at("path") == "storage-bounce");
  const std::string evidence = first.at("evidence").at("storage");
  CHECK(evidence.find("are also those of 1 other transfer meanwhile") != std::string::npos);
  CHECK(RefusalOfDirect(first).at("reason") == "COMPATIBILITY_MODE");
  CHECK(Contents(copy.node, "g") == copy.payload);
}

TEST_CASE("a drive that does not answer one user holds up no other") {
  REQUIRE_ROOT();
  Held copy(false, {}, kOwner);
  CommandAs(kOther, copy.node, {"buffer", "create", "h", "--size", "4MiB", "--memory", "cuda:0"});
  WriteFile(copy.folder / "theirs", copy.payload.substr(0, 4 * kMiB));
  std::filesystem::permissions(copy.folder / "theirs", std::filesystem::perms(0644));
  const Json beside = CommandAs(kOther, copy.node, {"cp", copy.folder / "theirs", "h"});
  CheckOneCopy(beside, "from", 4 * kMiB);
  // Of whose transfers, it is not said.
  CHECK(beside.dump().find(std::to_string(kOwner)) == std::string::npos);
  copy.Open();
  CHECK(copy.command->Wait() == 0);
  CHECK(copy.node.Stop() == 0);
}
}  // namespace storage_direct_ends_test
