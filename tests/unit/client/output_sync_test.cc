// Files that count once the disk has them.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "client/lib/output_file.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/failing_calls.h"
#include "tests/unit/client/temp_dir.h"
#include "transport/os/unique_fd.h"

using onecopy::Code;
using onecopy::LocalFile;
using onecopy::Status;
using onecopy::client::OutputFile;
using onecopy::client::Waiter;
using onecopy::testing::TempDir;

namespace fs = std::filesystem;
namespace reasons = onecopy::reasons;

namespace {

constexpr std::string_view kWritten = "new bytes";

Status PutOn(const LocalFile& to, bool sync) {
  ONECOPY_ASSIGN_OR_RETURN(const auto waiter, Waiter::Make({}, {}));
  ONECOPY_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(to, kWritten.size(), sync));
  ONECOPY_RETURN_IF_ERROR(
      file.Write(reinterpret_cast<const std::byte*>(kWritten.data()), kWritten.size(), *waiter));
  return file.Commit();
}

// What the work comes to on a thread for which no disk ever has anything.
Status WithoutDisks(const std::function<Status()>& work) {
  Status done;
  std::thread([&] {
    const bool filtered = onecopy::testing::FailCalls(SYS_fsync, EIO);
    done = filtered ? work() : Status(Code::kInternal, "TEST", "no filter for system calls");
  }).join();
  return done;
}

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a file that the disk does not take is no success, and what was there stays") {
  const TempDir dir;
  const std::string path = dir / "file";
  std::ofstream(path) << "old";
  const bool range = GENERATE(false, true);
  const LocalFile to = {path, -1, range ? std::optional<uint64_t>(0) : std::nullopt, {}};
  REQUIRE_OK(WithoutDisks([&] { return PutOn(to, false); }));  // nobody asked for it
  CHECK(ContentOf(path) == kWritten);
  std::ofstream(path) << "old";
  const Status failed = WithoutDisks([&] { return PutOn(to, true); });
  CHECK(failed.reason() == reasons::kIo);
  CHECK(failed.message().find("disk") != std::string::npos);
  if (!range) CHECK(ContentOf(path) == "old");
  CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("a file that the disk has is what its name stands for") {
  const TempDir dir;
  for (const char* name : {"new", "old"}) {
    const std::string path = dir / name;
    if (std::string_view(name) == "old") std::ofstream(path) << "old";
    REQUIRE_OK(PutOn({path}, true));
    CHECK(ContentOf(path) == kWritten);
    REQUIRE_OK(PutOn({path, -1, 3, {}}, true));
    CHECK(ContentOf(path) == "newnew bytes");
  }
}

TEST_CASE("what is on no disk is not waited for") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const onecopy::os::UniqueFd out(ends[0]);
  const onecopy::os::UniqueFd in(ends[1]);
  for (const LocalFile& to : {LocalFile{"/dev/null"}, LocalFile{"a pipe", in.get()}}) {
    const Status refused = PutOn(to, true);
    CHECK(refused.code() == Code::kInvalidArgument);
    CHECK(refused.remedy().find("--sync") != std::string::npos);
  }
}
