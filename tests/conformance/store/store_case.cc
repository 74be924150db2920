#include "tests/conformance/store/store_case.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <filesystem>
#include <future>

#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::testing {
namespace {

template <typename Ask>
Moved Await(StoreFile& file, const Ask& ask) {
  // Shared: the promise may be on its last steps when the future is heard.
  auto ended = std::make_shared<std::promise<Moved>>();
  ask([&file, ended](Status status, FilePass pass) {
    ended->set_value({std::move(status), pass, file.executor().InThread()});
  });
  Moved moved = ended->get_future().get();
  CHECK(moved.on_executor);
  return moved;
}

}  // namespace

Folder::Folder(const std::string& below) : path_(below + "/onecopy-XXXXXX") {
  REQUIRE(::mkdtemp(path_.data()) != nullptr);
  REQUIRE(::chmod(path_.c_str(), 0755) == 0);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> FileSystems() {
  std::vector<std::string> folders = {std::filesystem::temp_directory_path().string()};
  if (!IsTmpfs(folders.front()) && IsTmpfs("/dev/shm")) folders.emplace_back("/dev/shm");
  // As long as this program runs, and where it may mount at all.
  static std::string why;
  static const auto xfs = Disk::Make("xfs", folders.front(), uint64_t{512} << 20, why);
  if (xfs != nullptr) folders.push_back(xfs->path());
  return folders;
}

bool IsTmpfs(const std::string& path) {
  struct statfs system {};
  return ::statfs(path.c_str(), &system) == 0 && system.f_type == TMPFS_MAGIC;
}

StoreCase::StoreCase() {
  std::string why;
  store_ = MakeStore(why);
  if (store_ == nullptr) ONECOPY_SKIP(why);
}

Result<std::shared_ptr<StoreFile>> StoreCase::Open(OpenFileRequest request) {
  auto opened = std::make_shared<std::promise<Result<std::shared_ptr<StoreFile>>>>();
  store_->Open(std::move(request), [opened](Result<std::shared_ptr<StoreFile>> file) {
    opened->set_value(std::move(file));
  });
  return opened->get_future().get();
}

Result<std::shared_ptr<StoreFile>> StoreCase::Open(const std::string& path, FileUse use,
                                                   bool direct, const Uid& owner) {
  struct Kept {
    os::UniqueFd plain;
    os::UniqueFd direct;
  };
  const int access = use == FileUse::kRead ? O_RDONLY : O_RDWR;
  auto kept = std::make_shared<Kept>();
  kept->plain = os::UniqueFd(::open(path.c_str(), access | O_CLOEXEC));
  REQUIRE(kept->plain);
  if (direct) kept->direct = os::UniqueFd(::open(path.c_str(), access | O_CLOEXEC | O_DIRECT));
  OpenFileRequest request;
  request.fd = kept->plain.get();
  request.direct_fd = kept->direct.get();
  request.keeps = kept;
  request.name = path;
  request.use = use;
  if (use == FileUse::kWrite) request.bytes = uint64_t{64} << 20;
  request.owner = owner;
  return Open(std::move(request));
}

Moved Read(StoreFile& file, uint64_t offset, const Span& into) {
  return Await(file, [&](StoreFile::Done done) { file.Read(offset, into, std::move(done)); });
}

Moved Write(StoreFile& file, uint64_t offset, const Span& from) {
  return Await(file, [&](StoreFile::Done done) { file.Write(offset, from, std::move(done)); });
}

void WritePattern(const std::string& path, uint64_t bytes, uint64_t seed) {
  const os::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  REQUIRE(fd);
  const RegionRef region = Pages(bytes + 1);
  Fill({region, 0, bytes}, seed);
  REQUIRE(::write(fd.get(), region->address(), bytes) == static_cast<ssize_t>(bytes));
  REQUIRE(::fsync(fd.get()) == 0);
  REQUIRE(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
}

bool IsPattern(const std::string& path, uint64_t bytes, uint64_t seed) {
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd);
  const RegionRef region = Pages(bytes + 1);
  return ::read(fd.get(), region->address(), bytes + 1) == static_cast<ssize_t>(bytes) &&
         FirstWrong({region, 0, bytes}, seed) == bytes;
}

}  // namespace onecopy::testing
