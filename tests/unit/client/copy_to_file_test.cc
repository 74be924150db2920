#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/unit/client/file_copy_fixture.h"
#include "tests/unit/client/ordinary_user.h"
#include "tests/unit/client/streams.h"
#include "transport/digest/tree.h"

namespace copy_to_file_test {
using onecopy::Code;
using onecopy::CopyBufferToFile;
using onecopy::Endpoint;
using onecopy::FileCopyOptions;
using onecopy::Status;
using onecopy::testing::FileCopyFixture;
using onecopy::testing::MakePipe;
using onecopy::testing::MakeSockets;
using onecopy::testing::MakeTerminal;
using onecopy::testing::ModeOf;
using onecopy::testing::Pattern;
using onecopy::testing::Stream;
using onecopy::testing::Windows;

namespace fs = std::filesystem;
namespace os = onecopy::os;
namespace reasons = onecopy::reasons;

namespace {

const Endpoint kWhole = {"west", "b", {}, {}};

// A buffer west:b with these bytes.
struct ToFileFixture : FileCopyFixture {
  std::string content;
  std::string out;  // a folder with nothing else in it

  explicit ToFileFixture(size_t bytes = 10'500) : content(Pattern(bytes)), out(dir / "out") {
    daemon.AddBuffer("west", "b", bytes);
    daemon.SetBytes("west", "b", content);
    fs::create_directory(out);
  }

  std::string Content(const std::string& name) { return Read("out/" + name); }
  size_t FilesIn(const std::string& folder) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
  }
};

// The reader of a stream gets the buffer's bytes in order, however slowly it reads.
void CheckInOrder(Stream stream) {
  ToFileFixture f(300'000);
  std::string got;
  std::thread reader([&] {
    char piece[777];
    for (ssize_t count = 0; (count = ::read(stream.read.get(), piece, sizeof piece)) > 0;) {
      got.append(piece, static_cast<size_t>(count));
    }
  });
  const auto copy =
      CopyBufferToFile(f.client, kWhole, {"standard output", stream.write.get()}, Windows(50'000));
  stream.write.Reset();
  reader.join();
  REQUIRE_OK(copy);
  CHECK(got == f.content);
}

// A stop ends the wait of a copy that has begun, by windows of which the stream does not hold one.
void CheckStops(const Stream& stream, size_t bytes, uint64_t window) {
  ToFileFixture f(bytes);
  std::stop_source stop;
  FileCopyOptions options = Windows(window);
  options.stop = stop.get_token();
  std::jthread stopper([&] {
    pollfd full{stream.read.get(), POLLIN, 0};
    ::poll(&full, 1, -1);  // it has begun
    stop.request_stop();
  });
  CHECK(
      CopyBufferToFile(f.client, kWhole, {"stream", stream.write.get()}, options).status().code() ==
      Code::kCancelled);
}

}  // namespace

TEST_CASE("a buffer of several windows becomes a new file, with one receipt") {
  ToFileFixture f;
  const mode_t umask_before = ::umask(027);
  const auto copy = CopyBufferToFile(f.client, kWhole, {f.out + "/file"}, Windows(1000));
  ::umask(umask_before);
  REQUIRE_OK(copy);
  CHECK(f.Content("file") == f.content);
  CHECK(ModeOf(f.out + "/file") == 0640);
  CHECK(copy->bytes == f.content.size());
  CHECK(copy->windows == 11);
  REQUIRE(copy->receipt.copies() == 4);
  const onecopy::ExecutedStep& own = copy->receipt.steps.back();
  CHECK(own.step.from == "host");
  CHECK(own.step.to == "file");
  CHECK(own.step.by == "client");
  CHECK(own.bytes == f.content.size());
  CHECK(f.FilesIn(f.out) == 1);
  CHECK(f.daemon.buffers().empty());
}

TEST_CASE("a range of a buffer becomes a file, an empty one an empty file") {
  ToFileFixture f;
  REQUIRE_OK(CopyBufferToFile(f.client, {"west", "b", 100, 1234}, {f.out + "/part"}, Windows(500)));
  CHECK(f.Content("part") == f.content.substr(100, 1234));
  const auto empty = CopyBufferToFile(f.client, {"west", "b", 100, 0}, {f.out + "/empty"});
  REQUIRE_OK(empty);
  CHECK(empty->windows == 1);
  CHECK(fs::exists(f.out + "/empty"));
  CHECK(f.Content("empty").empty());
}

TEST_CASE("an existing file is replaced as a whole and keeps its mode") {
  ToFileFixture f;
  f.Write("out/file", std::string(50'000, 'o'));
  REQUIRE(::chmod((f.out + "/file").c_str(), 0604) == 0);
  REQUIRE_OK(CopyBufferToFile(f.client, kWhole, {f.out + "/file"}, Windows(1000)));
  CHECK(f.Content("file") == f.content);
  CHECK(ModeOf(f.out + "/file") == 0604);
}

TEST_CASE("an existing file keeps its owner where the caller may give files away") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root may give files away");
  ToFileFixture f;
  f.Write("out/file", "old");
  REQUIRE(::chown((f.out + "/file").c_str(), 12'345, 54'321) == 0);
  REQUIRE_OK(CopyBufferToFile(f.client, kWhole, {f.out + "/file"}));
  struct stat facts {};
  REQUIRE(::stat((f.out + "/file").c_str(), &facts) == 0);
  CHECK(facts.st_uid == 12'345);
  CHECK(facts.st_gid == 54'321);
}

TEST_CASE("a copy that fails leaves the existing file as it was, and nothing beside it") {
  ToFileFixture f;
  f.Write("out/file", "old");
  FileCopyOptions options = Windows(1000);
  options.on_progress = [&](uint64_t done, std::optional<uint64_t>) {
    if (done == 0) return;
    f.daemon.FailTransfers(Status(Code::kUnavailable, reasons::kDraining, "west ends"));
  };
  const Status status = CopyBufferToFile(f.client, kWhole, {f.out + "/file"}, options).status();
  CHECK(status.reason() == reasons::kDraining);
  CHECK(status.message().find("bytes had arrived") != std::string::npos);
  CHECK(f.Content("file") == "old");
  CHECK(f.FilesIn(f.out) == 1);
  CHECK(CopyBufferToFile(f.client, {"west", "c", {}, {}}, {f.out + "/new"}).status().code() ==
        Code::kNotFound);
  CHECK(f.FilesIn(f.out) == 1);
}

TEST_CASE("a copy that ends otherwise after its last byte leaves the existing file as it was") {
  ToFileFixture f;
  f.Write("out/file", "old");
  FileCopyOptions options = Windows(1000);
  bool cancelled = false;
  options.on_progress = [&](uint64_t done, std::optional<uint64_t>) {
    if (done < f.content.size() || cancelled) return;
    cancelled = true;
    REQUIRE_OK(f.client.CancelTransfer(f.daemon.transfers().at(0).id));
  };
  const Status status = CopyBufferToFile(f.client, kWhole, {f.out + "/file"}, options).status();
  CHECK(cancelled);
  CHECK(status.code() == Code::kCancelled);
  CHECK(f.Content("file") == "old");
  CHECK(f.FilesIn(f.out) == 1);
}

TEST_CASE("a stop leaves nothing behind") {
  ToFileFixture f;
  f.daemon.Hold();
  std::stop_source stop;
  FileCopyOptions options = Windows(1000);
  options.stop = stop.get_token();
  std::jthread stopper([&] {
    f.daemon.AwaitHeld(2);
    stop.request_stop();
  });
  CHECK(CopyBufferToFile(f.client, kWhole, {f.out + "/file"}, options).status().code() ==
        Code::kCancelled);
  CHECK(f.FilesIn(f.out) == 0);
  CHECK(f.daemon.link().waiting() == 0);
  CHECK(f.daemon.transfers().at(0).state == onecopy::TransferState::kCancelled);
}

TEST_CASE("a range of a file is written in place, and nothing around it") {
  ToFileFixture f(100);
  f.Write("out/file", std::string(300, 'o'));
  REQUIRE_OK(CopyBufferToFile(f.client, kWhole, {f.out + "/file", -1, 50, 200}, Windows(30)));
  CHECK(f.Content("file") == std::string(50, 'o') + f.content + std::string(150, 'o'));
  REQUIRE_OK(CopyBufferToFile(f.client, kWhole, {f.out + "/file", -1, 280, {}}));
  CHECK(f.Content("file").substr(280) == f.content);  // beyond its end: the file grows
  CHECK(f.Content("file").size() == 380);
}

TEST_CASE("a range is refused that is too short, of no file, or of a stream") {
  ToFileFixture f(100);
  f.Write("out/file", std::string(300, 'o'));
  const Status too_short =
      CopyBufferToFile(f.client, kWhole, {f.out + "/file", -1, 0, 99}).status();
  CHECK(too_short.code() == Code::kInvalidArgument);
  CHECK(too_short.reason() == reasons::kSizeMismatch);
  const Status missing = CopyBufferToFile(f.client, kWhole, {f.out + "/none", -1, 0, {}}).status();
  CHECK(missing.code() == Code::kNotFound);
  CHECK(missing.remedy().find("leave out the range") != std::string::npos);
  REQUIRE(::mkfifo((f.out + "/fifo").c_str(), 0600) == 0);
  CHECK(CopyBufferToFile(f.client, kWhole, {f.out + "/fifo", -1, 0, {}}).status().code() ==
        Code::kInvalidArgument);
  CHECK(CopyBufferToFile(f.client, kWhole, {f.out + "/file", -1, UINT64_MAX - 50, {}})
            .status()
            .code() == Code::kOutOfRange);
  CHECK(f.Content("file") == std::string(300, 'o'));
  CHECK(f.daemon.transfers().empty());
}

TEST_CASE("a symbolic link stays one, and the file behind it is replaced") {
  ToFileFixture f;
  fs::create_directory(f.out + "/far");
  f.Write("out/far/file", "old");
  fs::create_symlink("far/file", f.out + "/link");
  REQUIRE_OK(CopyBufferToFile(f.client, kWhole, {f.out + "/link"}));
  CHECK(fs::is_symlink(f.out + "/link"));
  CHECK(f.Content("far/file") == f.content);
  CHECK(f.FilesIn(f.out + "/far") == 1);
}

TEST_CASE("places where no file can be written are refused before a byte moves") {
  ToFileFixture f;
  fs::create_symlink("nowhere", f.out + "/dangling");
  for (const std::string& path : {f.out, f.out + "/dangling", f.out + "/new/", std::string()}) {
    INFO(path);
    CHECK(CopyBufferToFile(f.client, kWhole, {path}).status().code() == Code::kInvalidArgument);
  }
  CHECK(CopyBufferToFile(f.client, kWhole, {f.out + "/no/such/file"}).status().code() ==
        Code::kNotFound);
  CHECK(f.daemon.transfers().empty());
}

TEST_CASE("a file or folder without write permission is refused") {
  ToFileFixture f;
  f.Write("out/file", "old");
  REQUIRE_OK(f.client.Ping());  // its connections are this user's
  const onecopy::testing::AsOrdinaryUser user(f.dir.path());
  REQUIRE(::chmod((f.out + "/file").c_str(), 0400) == 0);
  CHECK(CopyBufferToFile(f.client, kWhole, {f.out + "/file"}).status().code() ==
        Code::kPermissionDenied);
  REQUIRE(::chmod(f.out.c_str(), 0500) == 0);
  CHECK(CopyBufferToFile(f.client, kWhole, {f.out + "/new"}).status().code() ==
        Code::kPermissionDenied);
  REQUIRE(::chmod(f.out.c_str(), 0700) == 0);
}

TEST_CASE("a device that is full says so") {
  ToFileFixture f;
  const Status status = CopyBufferToFile(f.client, kWhole, {"/dev/full"}, Windows(1000)).status();
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK(status.reason() == reasons::kNoSpace);
  CHECK(status.message().find("/dev/full") != std::string::npos);
  REQUIRE_OK(CopyBufferToFile(f.client, kWhole, {"/dev/null"}, Windows(1000)));
}

TEST_CASE("a file that does not fit on its disk is refused before a byte moves") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root may mount a small disk");
  ToFileFixture f(4 << 20);
  if (::mount("tmpfs", f.out.c_str(), "tmpfs", 0, "size=1m") != 0) {
    ONECOPY_SKIP("no file system can be mounted here");
  }
  f.Write("out/file", "old");
  const Status status =
      CopyBufferToFile(f.client, kWhole, {f.out + "/file"}, Windows(100'000)).status();
  const std::string left = f.Content("file");
  const size_t files = f.FilesIn(f.out);
  const auto fits = CopyBufferToFile(f.client, {"west", "b", 0, 500'000}, {f.out + "/small"});
  REQUIRE(::umount(f.out.c_str()) == 0);
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK(status.reason() == reasons::kNoSpace);
  CHECK_FALSE(status.remedy().empty());
  CHECK(left == "old");
  CHECK(files == 1);
  REQUIRE_OK(fits);
}

TEST_CASE("a pipe gets the bytes in order, however slowly it is read") { CheckInOrder(MakePipe()); }

TEST_CASE("a stop ends the wait for a pipe that nobody reads") {
  CheckStops(MakePipe(), 1 << 20, 256 << 10);
}

TEST_CASE("a stop ends the wait for a socket or a terminal whose reader has stopped") {
  Stream stream;
  SECTION("socket") { stream = MakeSockets(); }
  SECTION("terminal") { stream = MakeTerminal(); }
  CheckStops(stream, 4 << 20, 2 << 20);
  // Others that share the descriptor find it as it was.
  CHECK((::fcntl(stream.write.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("a socket gets the bytes in order, however slowly it is read") {
  CheckInOrder(MakeSockets());
}

TEST_CASE("a file in an open folder is there, whatever its path leads to by now") {
  ToFileFixture f;
  fs::create_directory(f.out + "/folder");
  fs::create_directory(f.out + "/victim");
  const os::UniqueFd folder(::open((f.out + "/folder").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  fs::rename(f.out + "/folder", f.out + "/moved");
  fs::create_directory_symlink(f.out + "/victim", f.out + "/folder");
  onecopy::LocalFile to;
  to.path = f.out + "/folder/file";
  to.folder_fd = folder.get();
  to.executable = true;
  REQUIRE_OK(CopyBufferToFile(f.client, kWhole, to));
  CHECK(f.Content("moved/file") == f.content);
  CHECK((ModeOf(f.out + "/moved/file") & 0111) != 0);
  CHECK(f.FilesIn(f.out + "/victim") == 0);

  fs::create_symlink(f.out + "/victim/file", f.out + "/moved/link");
  to.path = f.out + "/folder/link";
  const Status refused = CopyBufferToFile(f.client, kWhole, to).status();
  CHECK(refused.code() == Code::kFailedPrecondition);
  CHECK(refused.reason() == reasons::kAccessDenied);
  CHECK(f.FilesIn(f.out + "/victim") == 0);
}

TEST_CASE("a checksum covers what was written") {
  ToFileFixture f;
  FileCopyOptions options = Windows(1000);
  options.checksum = true;
  const auto copy = CopyBufferToFile(f.client, kWhole, {f.out + "/file"}, options);
  REQUIRE_OK(copy);
  REQUIRE(copy->receipt.checksum.has_value());
  CHECK(copy->receipt.checksum->verified);
  CHECK(copy->receipt.checksum->value ==
        onecopy::digest::TreeHexOf(f.content.data(), f.content.size()));
}

TEST_CASE("a plan for a file has the client's pass as its last step, and writes nothing") {
  ToFileFixture f;
  const auto plan = onecopy::PlanBufferToFile(f.client, kWhole, {f.out + "/file"});
  REQUIRE_OK(plan);
  CHECK(plan->copies() == 4);
  CHECK(plan->steps.back().by == "client");
  CHECK(f.FilesIn(f.out) == 0);
  CHECK(onecopy::PlanBufferToFile(f.client, kWhole, {f.out}).status().code() ==
        Code::kInvalidArgument);
}
}  // namespace copy_to_file_test
