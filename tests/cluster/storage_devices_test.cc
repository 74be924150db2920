// Block devices, and file systems that tests make: what a daemon reads from them, and writes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "onecopy/file_copy.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "transport/os/base/unique_fd.h"

namespace storage_devices_test {
namespace {

using namespace onecopy::testing;
using onecopy::Client;
using onecopy::Endpoint;
namespace os = onecopy::os;

constexpr uint64_t kMiB = uint64_t{1} << 20;

struct WithDevice {
  WithDevice() {
    device = BlockDevice::Make(folder.path().string(), 8 * kMiB, why);
    east.Do({"buffer", "create", "b", "--size", "8MiB"});
  }
  std::string Holds() const { return ReadFile(device->path()); }

  Node east{"east"};
  TempFolder folder;
  std::unique_ptr<BlockDevice> device;  // null: see `why`
  std::string why;
};

// What went to or from the device, by the daemon alone.
void CheckMoved(const Json& receipt, uint64_t bytes) {
  CHECK(receipt.at("path") == "storage-bounce");
  CHECK(receipt.at("bytes") == bytes);
  CHECK(receipt.at("copies") == receipt.at("steps").size());
  for (const Json& step : receipt.at("steps")) CHECK(step.at("by") != "client");
}

}  // namespace

TEST_CASE("a block device is read whole and in parts, by the daemon") {
  WithDevice with;
  if (with.device == nullptr) ONECOPY_SKIP(with.why);
  const std::string payload = Payload(8 * kMiB, 5);
  WriteFile(with.device->path(), payload);
  CheckMoved(with.east.Do({"cp", with.device->path(), "b", "--checksum"}), 8 * kMiB);
  CHECK(Contents(with.east, "b") == payload);
  CheckMoved(with.east.Do({"cp", with.device->path() + "@4097+3MiB", "b@7+3MiB"}), 3 * kMiB);
  CHECK(Contents(with.east, "b@7+3MiB") == payload.substr(4097, 3 * kMiB));
  // Not beyond its end.
  const CommandResult beyond = with.east.Run({"cp", with.device->path() + "@4MiB+5MiB", "b"});
  CHECK(beyond.exit_status == 2);
  CHECK(beyond.message().find(with.device->path()) != std::string::npos);
  // Larger than its buffer is refused before a byte moves.
  with.east.Do({"buffer", "create", "small", "--size", "1MiB"});
  CHECK(with.east.Run({"cp", with.device->path(), "small"}).reason() == "SIZE_MISMATCH");
}

TEST_CASE("a block device is written where that was asked for, and not otherwise") {
  WithDevice with;
  if (with.device == nullptr) ONECOPY_SKIP(with.why);
  const std::string before = Payload(8 * kMiB, 1);
  WriteFile(with.device->path(), before);
  const std::string payload = Payload(8 * kMiB, 2);
  with.east.Do({"cp", "-", "b"}, payload);
  const std::string& path = with.device->path();
  for (const std::string& where : {path, path + "@0+1MiB", path + "@0"}) {
    const std::string from = where == path + "@0+1MiB" ? "b@0+1MiB" : "b";
    for (const bool plan : {true, false}) {
      std::vector<std::string> words = {"cp", from, where};
      if (plan) words.emplace_back("--dry-run");
      const CommandResult refused = with.east.Run(words);
      CHECK(refused.exit_status == 2);
      CHECK(refused.message().find(path) != std::string::npos);
      CHECK(refused.json.at("error").at("remedy").get<std::string>().find("--write-device") !=
            std::string::npos);
    }
  }
  CHECK(with.Holds() == before);
  with.east.Do({"explain", "b", path});
  with.east.Do({"cp", "b", path, "--write-device", "--dry-run"});
  CHECK(with.Holds() == before);
  CheckMoved(with.east.Do({"cp", "b", path, "--write-device", "--sync", "--checksum"}), 8 * kMiB);
  CHECK(with.Holds() == payload);
  // A part, and nothing around it.
  CheckMoved(with.east.Do({"cp", "b@0+4097", path + "@11", "--write-device"}), 4097);
  std::string expected = payload;
  expected.replace(11, 4097, payload.substr(0, 4097));
  CHECK(with.Holds() == expected);
  // More than it holds.
  with.east.Do({"buffer", "create", "large", "--size", "9MiB"});
  const CommandResult larger = with.east.Run({"cp", "large", path, "--write-device"});
  CHECK(larger.exit_status == 2);
  CHECK(with.Holds() == expected);
  // The flag is for what is written.
  CHECK(with.east.Run({"cp", path, "b", "--write-device"}).exit_status == 2);
}

TEST_CASE("a block device that is mounted is not written") {
  Node east("east");
  const TempFolder folder;
  std::string why;
  const auto disk = Disk::Make("ext4", folder.path().string(), 16 * kMiB, why);
  if (disk == nullptr) ONECOPY_SKIP(why);
  WriteFile(disk->path() + "/kept", "kept");
  east.Do({"buffer", "create", "b", "--size", "1MiB"});
  const CommandResult refused = east.Run({"cp", "b", disk->device(), "--write-device"});
  CHECK(refused.exit_status == 7);
  CHECK(refused.reason() == "DEVICE_IN_USE");
  CHECK(refused.message().find(disk->device()) != std::string::npos);
  CHECK(ReadFile(disk->path() + "/kept") == "kept");
}

TEST_CASE("a block device of others is closed to a user who may not open it") {
  REQUIRE_ROOT();
  WithDevice with;
  if (with.device == nullptr) ONECOPY_SKIP(with.why);
  OpenTo(with.east);
  CommandAs(kOwner, with.east, {"buffer", "create", "theirs", "--size", "4096"});
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"cp", with.device->path() + "@0+4096", "theirs"},
           {"cp", "theirs", with.device->path(), "--write-device"}}) {
    CHECK(RunAs(kOwner, with.east, words).exit_status == 4);
  }
}

TEST_CASE("files of xfs and ext4 go past the page cache where they are large") {
  const std::string kind = GENERATE("xfs", "ext4");
  CAPTURE(kind);
  const TempFolder folder;
  std::string why;
  const auto disk = Disk::Make(kind, folder.path().string(), 512 * kMiB, why);
  if (disk == nullptr) ONECOPY_SKIP(why);
  const Node east("east");
  east.Do({"buffer", "create", "b", "--size", "16MiB"});
  const std::string payload = Payload(16 * kMiB, 4);
  east.Do({"cp", "-", "b"}, payload);
  const Json out = east.Do({"cp", "b", disk->path() + "/f", "--checksum"});
  CheckMoved(out, 16 * kMiB);
  CHECK(out.at("copies") == 1);
  CHECK(out.at("evidence").at("storage").get<std::string>().find("O_DIRECT") != std::string::npos);
  CHECK(ReadFile(disk->path() + "/f") == payload);
  const os::UniqueFd file(::open((disk->path() + "/f").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::fsync(file.get()) == 0);
  REQUIRE(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
  east.Do({"buffer", "create", "back", "--size", "16MiB"});
  const Json in = east.Do({"cp", disk->path() + "/f", "back", "--checksum"});
  CheckMoved(in, 16 * kMiB);
  CHECK(in.at("copies") == 1);
  CHECK(Contents(east, "back") == payload);
}
}  // namespace storage_devices_test
