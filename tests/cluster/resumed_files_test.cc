// Copies between a file and a buffer that were cut off by the client's end, and are continued.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <stop_token>

#include "onecopy/file_copy.h"
#include "tests/cluster/cut_copies.h"
#include "tests/cluster/users.h"
#include "transport/os/base/unique_fd.h"

namespace resumed_files_test {
namespace {

using namespace onecopy::testing;
namespace fs = std::filesystem;
namespace os = onecopy::os;

constexpr uint64_t kBytes = CutCopies::kBytes;

// One byte of it becomes another one.
void Damage(const std::string& path, uint64_t at) {
  const os::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  char byte = 0;
  REQUIRE(::pread(fd.get(), &byte, 1, static_cast<off_t>(at)) == 1);
  byte = static_cast<char>(byte ^ 1);
  REQUIRE(::pwrite(fd.get(), &byte, 1, static_cast<off_t>(at)) == 1);
}

ino_t InodeOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_ino;
}

// No file of this process may become longer, as on a disk that is full.
class NoLongerFiles {
 public:
  NoLongerFiles() : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit none{0, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  }
  ~NoLongerFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    static_cast<void>(::signal(SIGXFSZ, handler_));
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

}  // namespace

TEST_CASE("a file of which a killed client wrote some blocks keeps these but for the damaged one") {
  CutCopies f;
  f.Fill();
  WriteFile(f.out, "old");
  const auto copying = f.Copying("west:b", f.out, 5 * kMiB, {"resume", "windows"});
  CutCopies::Kill(*copying);
  CHECK(ReadFile(f.out) == "old");
  REQUIRE(fs::exists(f.partial));
  const uint64_t there = f.WrittenBytes();
  Damage(f.partial, 2 * kMiB + 77);
  const Json copy = f.east.Do({"cp", "west:b", f.out, "--resume", "--checksum"});
  f.CheckDone(copy, there - kMiB);
  CHECK(copy.at("checksum").at("verified") == true);
  CHECK(copy.at("ranges") == 2);
}

TEST_CASE("a client that writes the file itself continues by windows") {
  CutCopies f;
  f.Fill();
  CutCopies::Kill(*f.Copying("west:b", f.out, 5 * kMiB, {"resume", "windows"}));
  const uint64_t there = f.WrittenBytes();
  Damage(f.partial, 2 * kMiB);
  const Json copy = f.east.Do({"cp", "west:b", f.out, "--resume", "--path", "tcp-*"});
  f.CheckDone(copy, there - kMiB);
  CHECK(copy.at("path") == "tcp-direct");
}

TEST_CASE(
    "a file that the daemon wrote for a killed client is continued, of this node and another") {
  CutCopies f;
  f.Fill();
  f.east.Do({"buffer", "create", "here", "--size", std::to_string(kBytes)});
  f.east.Do({"cp", "west:b", "here"});
  for (const char* source : {"west:b", "east:here"}) {
    INFO(source);
    CutCopies::Kill(*f.Copying(source, f.out, 5 * kMiB, {"resume", "slow"}));
    CHECK_FALSE(fs::exists(f.out));
    REQUIRE(fs::exists(f.partial));
    const Json copy = f.east.Do({"cp", source, f.out, "--resume"});
    const auto proven = copy.at("proven_bytes").get<uint64_t>();
    CHECK(proven > 0);
    CHECK(proven < kBytes);
    f.CheckDone(copy, proven);
    fs::remove(f.out);
  }
}

TEST_CASE("a file that is complete needs no space to be found complete") {
  CutCopies f;
  f.Fill();
  WriteFile(f.out, f.payload);
  onecopy::Client client = f.east.Connect();
  const NoLongerFiles full;
  onecopy::FileCopyOptions options;
  options.resume = true;
  const auto copy = Must(onecopy::CopyBufferToFile(client, {"west", "b"}, {f.out}, options));
  CHECK(copy.bytes == 0);
  CHECK(copy.proven_bytes == kBytes);
  CHECK_FALSE(fs::exists(f.partial));
}

TEST_CASE("checksums of blocks are waited for until a stop or a limit, and no longer") {
  CutCopies f;
  f.Fill();
  onecopy::Client client = f.east.Connect();
  const onecopy::SumRequest request{{"west", "b"}, kMiB};
  CHECK(Must(client.SumBlocks(request)).blocks.size() == 17);
  const Frozen frozen(f.west);
  std::stop_source stop;
  auto stopped = std::async(std::launch::async,
                            [&] { return client.SumBlocks(request, stop.get_token()).status(); });
  stop.request_stop();
  CHECK(stopped.get().code() == onecopy::Code::kCancelled);
  const auto late = client.SumBlocks(request, {}, std::chrono::milliseconds(50)).status();
  CHECK(late.code() == onecopy::Code::kDeadlineExceeded);
}

TEST_CASE("of a partial file with all bytes but one, exactly its block is moved again") {
  CutCopies f;
  f.Fill();
  for (const uint64_t at : {uint64_t{0}, 7 * kMiB + 5, kBytes - 1}) {
    INFO("byte " << at);
    WriteFile(f.partial, f.payload);
    Damage(f.partial, at);
    f.CheckDone(f.Resume(), kBytes - (at == kBytes - 1 ? 123 : kMiB));
  }
  WriteFile(f.partial, f.payload);
  const Json copy = f.Resume();
  f.CheckDone(copy, kBytes);
  CHECK(copy.at("id") == "");
}

TEST_CASE("a partial file of another source, or of another length, becomes the right one") {
  CutCopies f;
  f.Fill();
  WriteFile(f.partial, Payload(kBytes, 2));
  f.CheckDone(f.Resume(), 0);
  WriteFile(f.partial, f.payload + "more");
  f.CheckDone(f.Resume(), kBytes);
  WriteFile(f.partial, f.payload.substr(0, 3 * kMiB + 1));
  f.CheckDone(f.Resume(), 3 * kMiB);
  WriteFile(f.partial, "");
  f.CheckDone(f.Resume(), kBytes);  // of the file that is there already
  // The source is another buffer of the same name by now, and longer.
  WriteFile(f.partial, f.payload);
  f.west.Do({"buffer", "rm", "b"});
  f.west.Do({"buffer", "create", "b", "--size", std::to_string(kBytes + kMiB)});
  f.west.Do({"cp", "-", "b"}, f.payload);
  const Json copy = f.Resume();
  CHECK(copy.at("proven_bytes") == 17 * kMiB);  // zeros behind the old end, too
  CHECK(copy.at("bytes") == 123);
  CHECK(ReadFile(f.out) == f.payload + std::string(kMiB, '\0'));
}

TEST_CASE("a file that is complete is left alone, and one that is not is replaced as a whole") {
  CutCopies f;
  f.Fill();
  WriteFile(f.out, f.payload);
  const ino_t before = InodeOf(f.out);
  f.CheckDone(f.Resume(), kBytes);
  f.CheckDone(f.east.Do({"cp", "west:b", f.out, "--resume", "--sync"}), kBytes);
  CHECK(InodeOf(f.out) == before);
  Damage(f.out, kBytes - 1);
  f.CheckDone(f.Resume(), 0);
  CHECK(InodeOf(f.out) != before);
}

TEST_CASE("what is zero in the source is zero in a partial file that had other bytes there") {
  CutCopies f;
  WriteFile(f.partial, f.payload);
  const Json copy = f.east.Do({"cp", "west:b", f.out, "--resume", "--path", "tcp-*"});
  CHECK(copy.at("bytes") == kBytes);
  CHECK(ReadFile(f.out) == std::string(kBytes, '\0'));
}

TEST_CASE("a buffer that a killed client filled in part gets the rest, and its damaged block") {
  CutCopies f;
  const std::string in = f.folder / "in";
  WriteFile(in, f.payload);
  for (const char* path : {"*", "tcp-*"}) {
    INFO("--path " << path);
    f.west.Do({"cp", "-", "b"}, std::string(kBytes, 'x'));
    CutCopies::Kill(*f.Copying(in, "west:b", 5 * kMiB, {"windows"}));
    // What was under way of the next windows may have arrived, too.
    const Json copy = f.east.Do({"cp", in, "west:b", "--resume", "--path", path});
    const auto proven = copy.at("proven_bytes").get<uint64_t>();
    CHECK(proven >= 5 * kMiB);
    CHECK(proven <= 7 * kMiB);
    CHECK(copy.at("bytes") == kBytes - proven);
    CHECK(Contents(f.west, "b") == f.payload);
    f.west.Do({"cp", "-", "b@" + std::to_string(3 * kMiB + 9) + "+1"}, "?");
    f.west.Do({"cp", "-", "b@" + std::to_string(kBytes - 1) + "+1"}, "?");
    const Json again = f.east.Do({"cp", in, "west:b", "--resume", "--path", path, "--checksum"});
    CHECK(again.at("bytes") == kMiB + 123);
    CHECK(again.at("proven_bytes") == kBytes - kMiB - 123);
    CHECK(again.at("checksum").at("verified") == true);
    CHECK(Contents(f.west, "b") == f.payload);
    const Json nothing = f.east.Do({"cp", in, "west:b", "--resume", "--path", path});
    CHECK(nothing.at("bytes") == 0);
    CHECK(nothing.at("proven_bytes") == kBytes);
  }
  const std::string part = in + "@" + std::to_string(2 * kMiB) + "+" + std::to_string(2 * kMiB);
  const Json range = f.east.Do({"cp", part, "west:b@5+" + std::to_string(2 * kMiB), "--resume"});
  CHECK(range.at("bytes") == 2 * kMiB);
  CHECK(Contents(f.west, "b@5+" + std::to_string(2 * kMiB)) ==
        f.payload.substr(2 * kMiB, 2 * kMiB));
  WriteFile(f.folder / "empty", "");
  CHECK(f.east.Do({"cp", f.folder / "empty", "west:b", "--resume"}).at("bytes") == 0);
}

TEST_CASE("--resume is refused where there is nothing to continue") {
  CutCopies f;
  const std::string in = f.folder / "in";
  WriteFile(in, f.payload);
  WriteFile(f.folder / "ranges",
            R"({"source": {"offset": 0, "bytes": 1}, "destination": {"offset": 0, "bytes": 1}})");
  REQUIRE(::mkfifo((f.folder / "fifo").c_str(), 0600) == 0);
  f.east.Do({"buffer", "create", "a", "--size", "4096"});
  const std::vector<std::vector<std::string>> cases = {
      {"west:b", "-"},
      {"-", "west:b"},
      {"/dev/null", "west:b"},
      {"west:b", "/dev/null"},
      {"west:b", f.folder / "fifo"},
      {"west:b@0+1", in + "@0"},
      {"a", "west:b"},
      {in, "west:b", "--ranges", f.folder / "ranges"},
      {in, "west:b", "--dry-run"},
      {in, "west:new", "--create"},
      {in, "west:b", "--also", "a"},
      {f.folder / "", "west:b"},
      {in, in, "west:"},
      {"west:b", f.folder / ""},
  };
  for (const std::vector<std::string>& ends : cases) {
    INFO(ends[0] << " " << ends[1]);
    std::vector<std::string> arguments = {"cp"};
    arguments.insert(arguments.end(), ends.begin(), ends.end());
    arguments.emplace_back("--resume");
    const CommandResult result = f.east.Run(arguments, "input");
    INFO(result.out << result.err);
    CHECK(result.exit_status == 2);
    CHECK((result.out + result.err).find("resume") != std::string::npos);
  }
  CHECK(ReadFile(in) == f.payload);
}

TEST_CASE("in C++, progress begins behind what was proven, and many files or buffers are refused") {
  CutCopies f;
  const std::string in = f.folder / "in";
  WriteFile(in, f.payload);
  f.west.Do({"cp", "-", "b"}, f.payload.substr(0, kBytes - 1) + "?");
  onecopy::Client client = f.east.Connect();
  const onecopy::Endpoint b{"west", "b"};
  onecopy::FileCopyOptions options;
  options.resume = true;
  options.on_progress = [](uint64_t done, std::optional<uint64_t> total) {
    CHECK(done >= 16 * kMiB);
    CHECK(total == kBytes);
  };
  const auto copy = Must(onecopy::CopyFileToBuffer(client, {in}, b, options));
  CHECK(copy.bytes == 123);
  CHECK(copy.proven_bytes == 16 * kMiB);
  CHECK(Contents(f.west, "b") == f.payload);

  const onecopy::LocalFile file{in, -1, 0, 1};
  const onecopy::Endpoint byte{"west", "b", 0, 1};
  const std::vector<onecopy::PlacedFile> placed = {{file, 0}};
  const std::vector<onecopy::FileToBuffer> theirs = {{file, byte}};
  const std::vector<onecopy::FilePiece> pieces = {{0, byte}};
  for (const onecopy::Status& status :
       {onecopy::CopyFilesToBuffer(client, placed, b, options).status(),
        onecopy::CopyFilesToBuffers(client, theirs, options).status(),
        onecopy::CopyFileToEach(client, file, {b}, options).status(),
        onecopy::CopyFileToBuffers(client, {in}, pieces, options).status(),
        onecopy::CopyBuffersToFile(client, {}, pieces, {f.out}, options).status()}) {
    INFO(status.ToString());
    CHECK(status.reason() == "BAD_ARGUMENT");
    CHECK(status.message().find("several") != std::string::npos);
  }
}

TEST_CASE("a user who may write to a buffer and not read it cannot continue a copy into it") {
  REQUIRE_ROOT();
  CutCopies f;
  OpenTo(f.west);
  const std::string in = f.folder / "in";
  WriteFile(in, f.payload);
  fs::permissions(f.folder.path(), fs::perms(0755));
  const std::string other = std::to_string(kOther) + "@west";
  f.west.Do({"grant", "add", "b", "--to", other, "--write"});
  CommandAs(kOther, f.west, {"cp", in, "b"});
  const CommandResult refused = RunAs(kOther, f.west, {"cp", in, "b", "--resume"});
  CHECK(refused.exit_status == 4);
  CHECK(refused.message().find("have in common") != std::string::npos);
  f.west.Do({"grant", "add", "b", "--to", other, "--read"});
  CHECK(CommandAs(kOther, f.west, {"cp", in, "b", "--resume"}).at("proven_bytes") == kBytes);
}

}  // namespace resumed_files_test
