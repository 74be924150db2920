// Files that count once the disk has them.
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "onecopy/reasons.h"
#include "tests/unit/client/file_copy_fixture.h"
#include "tests/unit/client/streams.h"

namespace output_sync_test {
using onecopy::Code;
using onecopy::LocalFile;
using onecopy::Status;
using onecopy::testing::ContentOf;
using onecopy::testing::TempFolder;

namespace fs = std::filesystem;
namespace reasons = onecopy::reasons;

namespace {

constexpr std::string_view kWritten = "new bytes";

Status PutOn(const LocalFile& to, bool sync) {
  return onecopy::testing::WriteAsCopy(to, kWritten, sync);
}

// On a thread for which no disk ever has anything.
Status WithoutDisks(const std::function<Status()>& work) {
  return onecopy::testing::WithFailingCalls(SYS_fsync, EIO, 0, work);
}

}  // namespace

TEST_CASE("a file that the disk does not take is no success, and what was there stays") {
  const TempFolder dir;
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
  const TempFolder dir;
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
  const auto [out, in] = onecopy::testing::MakePipe();
  for (const LocalFile& to : {LocalFile{"/dev/null"}, LocalFile{"a pipe", in.get()}}) {
    const Status refused = PutOn(to, true);
    CHECK(refused.code() == Code::kInvalidArgument);
    CHECK(refused.remedy().find("--sync") != std::string::npos);
  }
}
}  // namespace output_sync_test
