#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "client/lib/digest.h"
#include "onecopy/reasons.h"
#include "tests/support/sanitized.h"
#include "tests/unit/client/file_copy_fixture.h"

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
constexpr uint64_t kSlack = uint64_t{onecopy::testing::kAddressSanitizer ? 512 : 64} << 20;

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
  CHECK(copy->transfers.size() == 11);
  CHECK(copy->transfers.back().str() == "t11");
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
  CHECK(copy->receipt.lanes.size() == 2);
  CHECK(copy->receipt.refused.size() == 1);
  CHECK(copy->receipt.evidence.at("tcp.bytes_received") == "10500");
  CHECK(copy->receipt.seconds > 0);
  CHECK_FALSE(copy->receipt.checksum.has_value());
  CHECK(f.daemon.buffer_count() == 1);  // the windows are gone
}

TEST_CASE("windows are ranges of the buffer as it was found, by its id") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 300);
  REQUIRE_OK(CopyFileToBuffer(f.client, {f.Write("in", Pattern(250))}, {"west", "b", 50, {}},
                              Windows(100)));
  const auto requests = f.daemon.requests();
  REQUIRE(requests.size() == 3);
  CHECK(requests[2].destination().buffer() == "1.1");
  CHECK(requests[2].destination().offset_bytes() == 250);
  CHECK(requests[2].destination().bytes() == 50);
  CHECK(requests[0].source().buffer() == requests[2].source().buffer());  // two windows, in turn
  CHECK(requests[0].source().buffer() != requests[1].source().buffer());
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
  REQUIRE_OK(CopyFileToBuffer(f.client, {f.Write("in", "x")}, {"west", "b", {}, {}}));
  CHECK(f.daemon.last_registration().bytes() == 1);
  CHECK(f.daemon.Bytes("west", "b").substr(0, 2) == std::string("x\0", 2));
}

TEST_CASE("an empty file is a transfer of nothing, with a receipt and no pass of the client's") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10);
  const auto copy = CopyFileToBuffer(f.client, {f.Write("in", "")}, {"west", "b", {}, {}});
  REQUIRE_OK(copy);
  CHECK(copy->bytes == 0);
  CHECK(copy->windows == 1);
  CHECK(f.daemon.transfers().at(0).bytes() == 0);
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
  CHECK(f.daemon.buffer_count() == 1);
}

TEST_CASE("a window that fails ends the copy, and cancels what is under way") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10'000);
  f.daemon.SetFate(1, {.fail = Status(Code::kUnavailable, reasons::kPeerDown, "west went")});
  f.daemon.SetFate(2, {.hold = true});
  const Status status = CopyFileToBuffer(f.client, {f.Write("in", Pattern(10'000))},
                                         {"west", "b", {}, {}}, Windows(1000))
                            .status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == reasons::kPeerDown);
  CHECK(status.message().find("after 1000 bytes had arrived") == 0);
  const auto transfers = f.daemon.transfers();
  REQUIRE(transfers.size() == 3);
  CHECK(transfers[2].state() == onecopy::v1::CANCELLED);
  CHECK(f.daemon.buffer_count() == 1);
}

TEST_CASE("a stop cancels the transfers that are under way and waits for them") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10'000);
  f.daemon.SetFate(0, {.hold = true});
  f.daemon.SetFate(1, {.hold = true});
  std::stop_source stop;
  FileCopyOptions options = Windows(1000);
  options.stop = stop.get_token();
  std::jthread stopper([&] {
    f.daemon.AwaitStarted(2);
    stop.request_stop();
  });
  const Status status =
      CopyFileToBuffer(f.client, {f.Write("in", Pattern(10'000))}, {"west", "b", {}, {}}, options)
          .status();
  CHECK(status.code() == Code::kCancelled);
  for (const auto& transfer : f.daemon.transfers()) {
    CHECK(transfer.state() == onecopy::v1::CANCELLED);
  }
  CHECK(f.daemon.transfers().size() == 2);
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
    CHECK(copy->receipt.checksum->algorithm == "xxh3-128");
    CHECK(copy->receipt.checksum->verified);
    CHECK(copy->receipt.checksum->value ==
          onecopy::client::DigestOf(reinterpret_cast<const std::byte*>(content.data()),
                                    content.size()));
  }
  SECTION("and finds a byte that changed on the way, even where the daemon did not") {
    f.daemon.SetFate(3, {.corrupt = true});
    const Status status =
        CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options).status();
    CHECK(status.code() == Code::kDataLoss);
    CHECK(status.reason() == reasons::kChecksumMismatch);
  }
  SECTION("and is not taken for granted where the daemon gave none") {
    f.daemon.SetFate(0, {.no_checksum = true});
    CHECK(CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options).status().code() ==
          Code::kUnimplemented);
  }
}

TEST_CASE("the policy of a file copy counts the client's own pass") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10);
  const std::string path = f.Write("in", "x");
  FileCopyOptions options;
  options.policy.at_most_copies = 4;
  REQUIRE_OK(CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options));
  CHECK(f.daemon.requests().at(0).policy().at_most_copies() == 3);
  options.policy.at_most_copies = 3;
  const Status status = CopyFileToBuffer(f.client, {path}, {"west", "b", {}, {}}, options).status();
  CHECK(status.reason() == reasons::kPolicyUnmet);
  CHECK(status.message().find("of at most 3 copies, one is") == 0);
  CHECK(status.refusals().size() == 2);
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
  CHECK(f.daemon.buffer_count() == 1);
  CHECK(onecopy::PlanFileToBuffer(f.client, {f.Write("long", Pattern(11))}, {"west", "b", {}, {}})
            .status()
            .reason() == reasons::kSizeMismatch);
}

TEST_CASE("a huge file needs no more memory than its windows") {
  FileCopyFixture f;
  constexpr uint64_t kBytes = uint64_t{4} << 30;
  constexpr uint64_t kWindow = uint64_t{8} << 20;
  f.daemon.AddBuffer("west", "sink", kBytes, true);
  const std::string path = f.Write("sparse", "");
  std::filesystem::resize_file(path, kBytes);
  const uint64_t before = ResidentBytes();
  uint64_t most = 0;
  FileCopyOptions options = Windows(kWindow);
  options.on_progress = [&](uint64_t, std::optional<uint64_t>) {
    most = std::max(most, ResidentBytes());
  };
  const auto copy = CopyFileToBuffer(f.client, {path}, {"west", "sink", {}, {}}, options);
  REQUIRE_OK(copy);
  CHECK(copy->bytes == kBytes);
  CHECK(copy->windows == kBytes / kWindow);
  CHECK(most >= kWindow);
  // This process's and the daemon's mapping of two windows, and some for gRPC.
  CHECK(most - before < 4 * kWindow + kSlack);
}

TEST_CASE("of a very long copy only the last ids are kept") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 2000);
  const auto copy =
      CopyFileToBuffer(f.client, {f.Write("in", Pattern(1005))}, {"west", "b", {}, {}}, Windows(1));
  REQUIRE_OK(copy);
  CHECK(copy->windows == 1005);
  REQUIRE(copy->transfers.size() == 1000);
  CHECK(copy->transfers.front().str() == "t6");
  CHECK(copy->transfers.back().str() == "t1005");
}
