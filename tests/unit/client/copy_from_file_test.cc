#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "client/lib/files/windows.h"
#include "onecopy/reasons.h"
#include "tests/support/sanitized.h"
#include "tests/unit/client/file_copy_fixture.h"
#include "transport/digest/tree.h"

namespace copy_from_file_test {
using onecopy::Code;
using onecopy::CopyFileToBuffer;
using onecopy::FileCopyOptions;
using onecopy::LocalFile;
using onecopy::Status;
using onecopy::testing::FileCopyFixture;
using onecopy::testing::Pattern;
using onecopy::testing::Windows;

namespace os = onecopy::os;
namespace reasons = onecopy::reasons;

namespace {

// What else a process may take while it copies. AddressSanitizer keeps freed memory for a while.
constexpr uint64_t kSlack = uint64_t{onecopy::testing::kAddressSanitizer ? 128 : 64} << 20;

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("a file of several windows arrives whole, and has one receipt") {
  FileCopyFixture f;
  const std::string content = Pattern(10'500);
  f.daemon.AddBuffer("west", "b", 20'000);
  std::vector<uint64_t> progress;
  FileCopyOptions options = Windows(1000);
  options.on_progress = [&](uint64_t done, std::optional<uint64_t> total) {
    CHECK(total == 10'500U);
    progress.push_back(done);
  };
  const auto copy =
      CopyFileToBuffer(f.client, {f.Write("in", content)}, {"west", "b", 100, {}}, options);
  REQUIRE_OK(copy);
  CHECK(copy->bytes == content.size());
  CHECK(copy->windows == 11);
  REQUIRE(f.daemon.transfers().size() == 1);  // whatever it was made of
  CHECK(f.daemon.transfers().front().id == copy->id);
  CHECK(f.daemon.transfers().front().parts == 11);
  CHECK(f.daemon.Bytes("west", "b").substr(100, content.size()) == content);
  CHECK(f.daemon.Bytes("west", "b").substr(100 + content.size()) ==
        std::string(20'000 - 100 - content.size(), '\0'));
  CHECK(std::is_sorted(progress.begin(), progress.end()));
  CHECK(progress.back() == content.size());

  REQUIRE(copy->receipt.copies() == 4);
  const onecopy::ExecutedStep& own = copy->receipt.steps.front();
  CHECK(own.step.node == "east");
  CHECK(own.step.from == "file");
  CHECK(own.step.to == "host");
  CHECK(own.step.by == "client");
  for (const auto& step : copy->receipt.steps) CHECK(step.bytes == content.size());
  CHECK(copy->receipt.path == "tcp-direct");
  CHECK_FALSE(copy->receipt.lanes.empty());
  CHECK_FALSE(copy->receipt.refused.empty());
  CHECK_FALSE(copy->receipt.evidence.empty());
  CHECK(copy->receipt.seconds > 0);
  CHECK_FALSE(copy->receipt.checksum.has_value());
  CHECK(f.daemon.buffers().empty());  // the windows are gone
}

TEST_CASE("windows are ranges of the buffer as it was found, by its id") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 1050);
  FileCopyOptions options = Windows(100);
  options.on_progress = [&](uint64_t done, std::optional<uint64_t>) {
    if (done != 500) return;
    CHECK(f.daemon.buffers().size() == 2);  // two windows, in turn
    // Another one of that name.
    f.daemon.RemoveBuffer("west", "b");
    f.daemon.AddBuffer("west", "b", 1050);
  };
  const Status status =
      CopyFileToBuffer(f.client, {f.Write("in", Pattern(1000))}, {"west", "b", 50, {}}, options)
          .status();
  CHECK_FALSE(status.ok());
  CHECK(f.daemon.Bytes("west", "b") == std::string(1050, '\0'));
}

TEST_CASE("the last window may be full, and the file as long as the range") {
  FileCopyFixture f;
  const std::string content = Pattern(3000);
  f.daemon.AddBuffer("west", "b", 3000);
  const auto copy =
      CopyFileToBuffer(f.client, {f.Write("in", content)}, {"west", "b", {}, {}}, Windows(1000));
  REQUIRE_OK(copy);
  CHECK(copy->windows == 3);
  CHECK(f.daemon.Bytes("west", "b") == content);
}

TEST_CASE("a small file is one window of its own size") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 3000);
  FileCopyOptions options;
  options.on_progress = [&](uint64_t, std::optional<uint64_t>) {
    REQUIRE(f.daemon.buffers().size() == 1);
    CHECK(f.daemon.buffers().front().bytes == 1);
  };
  REQUIRE_OK(CopyFileToBuffer(f.client, {f.Write("in", "x")}, {"west", "b", {}, {}}, options));
  CHECK(f.daemon.Bytes("west", "b").substr(0, 2) == std::string("x\0", 2));
}

TEST_CASE("an empty file is a transfer of nothing, with a receipt and no pass of the client's") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10);
  const auto copy = CopyFileToBuffer(f.client, {f.Write("in", "")}, {"west", "b", {}, {}});
  REQUIRE_OK(copy);
  CHECK(copy->bytes == 0);
  CHECK(copy->windows == 1);
  CHECK(f.daemon.transfers().at(0).bytes == 0);
  CHECK(f.daemon.transfers().at(0).state == onecopy::TransferState::kSucceeded);
  for (const auto& step : copy->receipt.steps) CHECK(step.step.by != "client");
}

TEST_CASE("a file that is too long is refused before a byte moves") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 1000);
  const auto range = GENERATE(std::optional<uint64_t>(), std::optional<uint64_t>(10));
  const Status status =
      CopyFileToBuffer(f.client, {f.Write("in", Pattern(1001))}, {"west", "b", {}, range}).status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.reason() == reasons::kSizeMismatch);
  CHECK(status.message().find("1001") != std::string::npos);
  CHECK(f.daemon.transfers().empty());
}

TEST_CASE("a range of a file is read, and one beyond its end refused") {
  FileCopyFixture f;
  const std::string content = Pattern(5000);
  const std::string path = f.Write("in", content);
  f.daemon.AddBuffer("west", "b", 5000);
  REQUIRE_OK(
      CopyFileToBuffer(f.client, {path, -1, 1000, 2500}, {"west", "b", {}, {}}, Windows(1000)));
  CHECK(f.daemon.Bytes("west", "b").substr(0, 2500) == content.substr(1000, 2500));
  REQUIRE_OK(CopyFileToBuffer(f.client, {path, -1, 4999, {}}, {"west", "b", {}, {}}));
  CHECK(f.daemon.Bytes("west", "b").front() == content.back());
  for (const LocalFile& file : {LocalFile{path, -1, 1, 5000}, LocalFile{path, -1, 5001, {}},
                                LocalFile{path, -1, UINT64_MAX, 1}}) {
    CHECK(CopyFileToBuffer(f.client, file, {"west", "b", {}, {}}).status().reason() ==
          reasons::kRangeOutOfBuffer);
  }
}

TEST_CASE("files that cannot be read are refused by name") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10);
  const Status missing =
      CopyFileToBuffer(f.client, {f.dir / "missing"}, {"west", "b", {}, {}}).status();
  CHECK(missing.code() == Code::kNotFound);
  CHECK(missing.reason() == reasons::kFileNotFound);
  CHECK(missing.message().find("missing") != std::string::npos);
  const Status folder = CopyFileToBuffer(f.client, {f.dir.path()}, {"west", "b", {}, {}}).status();
  CHECK(folder.code() == Code::kInvalidArgument);
  CHECK(folder.remedy().find("tar") != std::string::npos);
}

TEST_CASE("a buffer or range that is not there is refused before the file is read") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10);
  const std::string path = f.Write("in", "x");
  CHECK(CopyFileToBuffer(f.client, {path}, {"west", "c", {}, {}}).status().reason() ==
        reasons::kBufferNotFound);
  CHECK(CopyFileToBuffer(f.client, {path}, {"west", "b", 11, {}}).status().reason() ==
        reasons::kRangeOutOfBuffer);
  CHECK(CopyFileToBuffer(f.client, {path}, {"west", "b", 5, 6}).status().reason() ==
        reasons::kRangeOutOfBuffer);
  CHECK(f.daemon.transfers().empty());
}

TEST_CASE("a file of /proc, which says that it is empty, is read") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 100'000);
  const auto copy = CopyFileToBuffer(f.client, {"/proc/self/status"}, {"west", "b", {}, {}});
  REQUIRE_OK(copy);
  CHECK(copy->bytes > 0);
  CHECK(f.daemon.Bytes("west", "b").starts_with("Name:"));
}

TEST_CASE("a file that shrinks while it is read fails, and says how far it came") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10'000);
  const std::string path = f.Write("in", Pattern(10'000));
  FileCopyOptions options = Windows(1000);
  options.on_progress = [&](uint64_t done, std::optional<uint64_t>) {
    if (done > 0) std::filesystem::resize_file(path, 0);
  };
  const Status status = CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options).status();
  CHECK(status.code() == Code::kDataLoss);
  CHECK(status.message().find("bytes had arrived") != std::string::npos);
  CHECK(f.daemon.buffers().empty());
}

TEST_CASE("a window that fails ends the copy, and cancels what is under way") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10'000);
  // The third get fails, while what begins after that is held.
  std::atomic<int> gets{0};
  std::atomic<bool> failed{false};
  f.daemon.link().Set([&](auto& hooks) {
    hooks.on_get = [&](const onecopy::LaneInfo&) -> Status {
      if (++gets < 3) return onecopy::OkStatus();
      f.daemon.Hold();
      failed = true;
      return {Code::kUnavailable, reasons::kDraining, "west ends"};
    };
  });
  FileCopyOptions options = Windows(1000);
  options.on_progress = [&](uint64_t done, std::optional<uint64_t>) {
    while (done == 2000 && !failed) std::this_thread::yield();
  };
  const Status status =
      CopyFileToBuffer(f.client, {f.Write("in", Pattern(10'000))}, {"west", "b", {}, {}}, options)
          .status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == reasons::kDraining);
  // The gets of two windows that are under way may come in either order.
  const bool told = status.message().find("after 2000 bytes had arrived") == 0 ||
                    status.message().find("after 1000 bytes had arrived") == 0;
  INFO(status.message());
  CHECK(told);
  CHECK(f.daemon.link().waiting() == 0);
  CHECK(f.daemon.transfers().at(0).state == onecopy::TransferState::kFailed);
  CHECK(f.daemon.buffers().empty());
}

TEST_CASE("a stop cancels the transfers that are under way and waits for them") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10'000);
  f.daemon.Hold();
  std::stop_source stop;
  FileCopyOptions options = Windows(1000);
  options.stop = stop.get_token();
  std::jthread stopper([&] {
    f.daemon.AwaitHeld(2);
    stop.request_stop();
  });
  const Status status =
      CopyFileToBuffer(f.client, {f.Write("in", Pattern(10'000))}, {"west", "b", {}, {}}, options)
          .status();
  CHECK(status.code() == Code::kCancelled);
  CHECK(f.daemon.link().waiting() == 0);
  REQUIRE(f.daemon.transfers().size() == 1);
  CHECK(f.daemon.transfers().front().state == onecopy::TransferState::kCancelled);
}

TEST_CASE("a checksum covers the whole copy, from the file to the far buffer") {
  FileCopyFixture f;
  const std::string content = Pattern(10'500);
  f.daemon.AddBuffer("west", "b", 20'000);
  FileCopyOptions options = Windows(1000);
  options.checksum = true;
  const std::string path = f.Write("in", content);
  SECTION("of all bytes, as if they had been summed at once") {
    const auto copy = CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options);
    REQUIRE_OK(copy);
    REQUIRE(copy->receipt.checksum.has_value());
    CHECK(copy->receipt.checksum->algorithm == "xxh3-128-tree");
    CHECK(copy->receipt.checksum->verified);
    CHECK(copy->receipt.checksum->value ==
          onecopy::digest::TreeHexOf(content.data(), content.size()));
  }
  SECTION("and finds a byte that changed on the way") {
    f.daemon.CorruptArrivals();
    const Status status =
        CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options).status();
    CHECK(status.code() == Code::kDataLoss);
    CHECK(status.reason() == reasons::kChecksumMismatch);
  }
}

TEST_CASE("a part's checksum is the daemon's word, and is compared with what was read here") {
  const std::string content = Pattern(1000);
  const auto* const data = reinterpret_cast<const std::byte*>(content.data());
  onecopy::Receipt receipt;
  const auto verify = [&] { return onecopy::client::VerifyPart(receipt, data, content.size()); };
  CHECK(verify().code() == Code::kUnimplemented);
  receipt.checksum = onecopy::ChecksumResult{"xxh3-128-tree", "", true};
  receipt.checksum->value = onecopy::digest::TreeHexOf(data, content.size());
  REQUIRE_OK(verify());
  receipt.checksum->verified = false;
  CHECK(verify().reason() == reasons::kChecksumMismatch);
  receipt.checksum->verified = true;
  receipt.checksum->value.front() ^= 1;
  CHECK(verify().code() == Code::kDataLoss);
  CHECK(verify().reason() == reasons::kChecksumMismatch);
  receipt.checksum->algorithm = "crc32";
  CHECK(verify().code() == Code::kUnimplemented);
}

TEST_CASE("the policy of a file copy counts the client's own pass") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10);
  const std::string path = f.Write("in", "x");
  FileCopyOptions options;
  options.policy.at_most_copies = 4;
  REQUIRE_OK(CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options));
  options.policy.at_most_copies = 3;
  const Status status = CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options).status();
  CHECK(status.reason() == reasons::kPolicyUnmet);
  REQUIRE_FALSE(status.refusals().empty());
  CHECK(std::any_of(status.refusals().begin(), status.refusals().end(), [](const auto& refusal) {
    return refusal.detail.find("including the client's own copy of its file") != std::string::npos;
  }));
  CHECK(onecopy::PlanFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options)
            .status()
            .reason() == reasons::kPolicyUnmet);
}

TEST_CASE("a plan for a file has the client's pass as its first step, and moves nothing") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10);
  const auto plan =
      onecopy::PlanFileToBuffer(f.client, {f.Write("in", "xyz")}, {"west", "b", {}, {}});
  REQUIRE_OK(plan);
  CHECK(plan->copies() == 4);
  REQUIRE(plan->steps.size() == 4);
  CHECK(plan->steps.front().by == "client");
  CHECK(f.daemon.transfers().empty());
  CHECK(f.daemon.buffers().empty());
  CHECK(onecopy::PlanFileToBuffer(f.client, {f.Write("long", Pattern(11))}, {"west", "b", {}, {}})
            .status()
            .reason() == reasons::kSizeMismatch);
}

TEST_CASE("a long file needs no more memory than its windows") {
  FileCopyFixture f;
  constexpr uint64_t kBytes = uint64_t{256} << 20;
  constexpr uint64_t kWindow = uint64_t{1} << 20;
  f.daemon.AddBuffer("west", "b", kBytes);
  const std::string path = f.Write("sparse", "");
  std::filesystem::resize_file(path, kBytes);
  // All that the far end needs is resident after the first time.
  REQUIRE_OK(CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}));
  const uint64_t before = ResidentBytes();
  uint64_t most = 0;
  FileCopyOptions options = Windows(kWindow);
  options.on_progress = [&](uint64_t, std::optional<uint64_t>) {
    most = std::max(most, ResidentBytes());
  };
  const auto copy = CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options);
  REQUIRE_OK(copy);
  CHECK(copy->bytes == kBytes);
  CHECK(copy->windows == kBytes / kWindow);
  CHECK(most >= kWindow);
  // This process's and the daemon's mapping of two windows, and some for gRPC and the engines.
  CHECK(most < before + 4 * kWindow + kSlack);
}
}  // namespace copy_from_file_test
