// Files without an end that is known beforehand: pipes, FIFOs, and who waits for them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/sanitized.h"
#include "tests/unit/client/file_copy_fixture.h"
#include "tests/unit/client/streams.h"

namespace copy_from_pipe_test {
using onecopy::Code;
using onecopy::CopyFileToBuffer;
using onecopy::FileCopyOptions;
using onecopy::LocalFile;
using onecopy::Status;
using onecopy::testing::FileCopyFixture;
using onecopy::testing::MakePipe;
using onecopy::testing::Pattern;
using onecopy::testing::Stream;
using onecopy::testing::Windows;

namespace os = onecopy::os;
namespace reasons = onecopy::reasons;

namespace {

void WriteAll(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(fd, text.data() + at, text.size() - at);
    if (count <= 0) return;
    at += static_cast<size_t>(count);
  }
}

}  // namespace

TEST_CASE("an open file is read from its position on, which then follows") {
  FileCopyFixture f;
  const std::string path = f.Write("in", "0123456789");
  f.daemon.AddBuffer("west", "b", 10);
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::lseek(fd.get(), 4, SEEK_SET) == 4);
  REQUIRE_OK(CopyFileToBuffer(f.client, {"in", fd.get()}, {"west", "b", {}, {}}));
  CHECK(f.daemon.Bytes("west", "b") == std::string("456789\0\0\0\0", 10));
  CHECK(::lseek(fd.get(), 0, SEEK_CUR) == 10);
}

TEST_CASE("a pipe is read to its end, in pieces of any size") {
  FileCopyFixture f;
  const std::string content = Pattern(200'000);
  f.daemon.AddBuffer("west", "b", 300'000);
  Stream pipe = MakePipe();
  std::jthread writer([&, end = std::move(pipe.write)] { WriteAll(end.get(), content); });
  const auto copy = CopyFileToBuffer(f.client, {"standard input", pipe.read.get()},
                                     {"west", "b", {}, {}}, Windows(16'384));
  REQUIRE_OK(copy);
  CHECK(copy->bytes == content.size());
  CHECK(f.daemon.Bytes("west", "b").substr(0, content.size()) == content);
}

TEST_CASE("a pipe as long as the buffer fits, and one that is longer fails when it is full") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 3000);
  Stream fits = MakePipe();
  WriteAll(fits.write.get(), Pattern(3000));
  fits.write.Reset();
  REQUIRE_OK(
      CopyFileToBuffer(f.client, {"fits", fits.read.get()}, {"west", "b", {}, {}}, Windows(1000)));
  CHECK(f.daemon.Bytes("west", "b") == Pattern(3000));
  Stream longer = MakePipe();
  WriteAll(longer.write.get(), Pattern(3001));
  longer.write.Reset();
  const Status status = CopyFileToBuffer(f.client, {"longer", longer.read.get()},
                                         {"west", "b", {}, {}}, Windows(1000))
                            .status();
  CHECK(status.reason() == reasons::kSizeMismatch);
  CHECK(status.message().find("more than 3000 bytes") != std::string::npos);
}

TEST_CASE("a stop or a deadline ends the wait for an idle pipe") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10'000);
  Stream pipe = MakePipe();
  std::stop_source stop;
  FileCopyOptions options = Windows(1000);
  SECTION("a stop") {
    WriteAll(pipe.write.get(), Pattern(1000));  // one window; the second is waited for
    options.stop = stop.get_token();
    std::atomic<bool> arrived{false};
    f.daemon.link().Set(
        [&](auto& hooks) { hooks.on_landed = [&](const onecopy::Span&) { arrived = true; }; });
    std::jthread stopper([&] {
      while (!arrived) std::this_thread::yield();
      stop.request_stop();
    });
    CHECK(CopyFileToBuffer(f.client, {"pipe", pipe.read.get()}, {"west", "b", {}, {}}, options)
              .status()
              .code() == Code::kCancelled);
  }
  SECTION("a deadline") {
    options.deadline = std::chrono::milliseconds(20);
    const Status status =
        CopyFileToBuffer(f.client, {"pipe", pipe.read.get()}, {"west", "b", {}, {}}, options)
            .status();
    CHECK(status.code() == Code::kDeadlineExceeded);
    CHECK(status.reason() == reasons::kDeadline);
  }
}

TEST_CASE("a FIFO without writer can be given up") {
  FileCopyFixture f;
  f.daemon.AddBuffer("west", "b", 10);
  REQUIRE(::mkfifo((f.dir / "fifo").c_str(), 0600) == 0);
  FileCopyOptions options;
  options.deadline = std::chrono::milliseconds(20);
  CHECK(CopyFileToBuffer(f.client, {f.dir / "fifo"}, {"west", "b", {}, {}}, options)
            .status()
            .code() == Code::kDeadlineExceeded);
}
}  // namespace copy_from_pipe_test
