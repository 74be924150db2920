// The partial file of a copy that may be continued, where file systems can do less than others.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "onecopy/reasons.h"
#include "tests/unit/client/file_copy_fixture.h"

namespace partial_file_test {
using onecopy::Result;
using onecopy::Status;
using onecopy::client::OutputFile;
using onecopy::client::Waiter;
using onecopy::testing::ContentOf;
using onecopy::testing::TempFolder;
using onecopy::testing::WithFailingCalls;

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kBytes = 1 << 20;

// Locks are fcntl's with an address, which no number of a descriptor reaches.
Status WithoutLocks(const std::function<Status()>& work) {
  return WithFailingCalls(SYS_fcntl, ENOLCK, 1 << 16, work);
}
Status WithoutHoles(const std::function<Status()>& work) {
  return WithFailingCalls(SYS_lseek, EINVAL, SEEK_DATA, work);
}

struct Fixture {
  const TempFolder dir;
  const std::string path = dir / "out";
  const std::string partial = dir / ".out.onecopy-part";
  const std::unique_ptr<Waiter> waiter = *Waiter::Make({}, {});

  Result<OutputFile> Open() const { return OutputFile::Continue({path}, kBytes, {}, *waiter); }
  Status WriteOne(OutputFile& file) const {
    const std::byte one{1};
    return file.Write(&one, 1, *waiter);
  }
};

}  // namespace

TEST_CASE("where files have no locks nothing is left, and the error says what to leave out") {
  const Fixture f;
  const auto open = [&f] { return f.Open().status(); };
  const Status refused = WithoutLocks(open);
  CHECK(refused.message().find("locking") != std::string::npos);
  CHECK(refused.remedy().find("--resume") != std::string::npos);
  CHECK(fs::is_empty(f.dir.path()));
  std::ofstream(f.partial) << "bytes";
  CHECK(WithoutLocks(open).message() == refused.message());
  CHECK(ContentOf(f.partial) == "bytes");
}

TEST_CASE("a partial file to which nothing was written goes, also where it could have no holes") {
  const Fixture f;
  REQUIRE_OK(WithoutHoles([&f]() -> Status {
    ONECOPY_ASSIGN_OR_RETURN(OutputFile file, f.Open());
    CHECK(file.is_new());
    ONECOPY_RETURN_IF_ERROR(file.SetLength(kBytes));
    CHECK(file.HasPartial());
    CHECK(file.DiscardIfEmpty());
    CHECK_FALSE(file.HasPartial());
    return {};
  }));
  CHECK_FALSE(fs::exists(f.partial));
  REQUIRE_OK(WithoutHoles([&f]() -> Status {
    ONECOPY_ASSIGN_OR_RETURN(OutputFile file, f.Open());
    ONECOPY_RETURN_IF_ERROR(f.WriteOne(file));
    CHECK_FALSE(file.DiscardIfEmpty());
    return {};
  }));
  CHECK(fs::file_size(f.partial) == 1);
  REQUIRE_OK(WithoutHoles([&f]() -> Status {
    ONECOPY_ASSIGN_OR_RETURN(OutputFile file, f.Open());
    CHECK_FALSE(file.is_new());
    CHECK_FALSE(file.DiscardIfEmpty());
    return {};
  }));
  CHECK(fs::file_size(f.partial) == 1);
}

TEST_CASE("a partial file that has been removed or has its name is not spoken of") {
  const Fixture f;
  Result<OutputFile> file = f.Open();
  REQUIRE_OK(file.status());
  REQUIRE_OK(f.WriteOne(*file));
  REQUIRE(file->HasPartial());
  REQUIRE_OK(file->Commit());
  CHECK_FALSE(file->HasPartial());
  Result<OutputFile> other = f.Open();
  REQUIRE_OK(other.status());
  REQUIRE_OK(f.WriteOne(*other));
  fs::remove(f.partial);
  CHECK_FALSE(other->HasPartial());
  std::ofstream(f.partial) << "of another client";
  CHECK_FALSE(other->HasPartial());
  CHECK(other->Commit().reason() == onecopy::reasons::kFileInUse);
  CHECK(ContentOf(f.partial) == "of another client");
  CHECK(fs::file_size(f.path) == 1);
}

}  // namespace partial_file_test
