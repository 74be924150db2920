#include "bench/ceiling/plain_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "bench/measure/payload.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"

namespace onecopy::bench {
namespace {

Status FileStatus(int error, const std::string& file, uint64_t bytes) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return {Code::kResourceExhausted, reasons::kNoSpace,
            "there is no room for a file of " + FormatBytes(bytes) + " at " + file,
            "set TMPDIR to a folder with more room"};
  }
  if (error == EINVAL) {
    return {Code::kFailedPrecondition, reasons::kNotApplicable,
            file + " cannot be read past the page cache on its file system",
            "set TMPDIR to a folder on a disk"};
  }
  return os::ErrnoStatus(error, "using " + file);
}

}  // namespace

Result<std::unique_ptr<PlainFile>> PlainFile::Create(const std::string& file, uint64_t bytes,
                                                     uint64_t call_bytes) {
  std::unique_ptr<PlainFile> plain(new PlainFile(file, bytes, call_bytes));
  plain->fd_ =
      os::UniqueFd(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600));
  if (!plain->fd_) return FileStatus(errno, file, bytes);
  if (const int error = ::posix_fallocate(plain->fd_.get(), 0, static_cast<off_t>(bytes))) {
    return FileStatus(error, file, bytes);
  }
  ONECOPY_ASSIGN_OR_RETURN(plain->payload_, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(plain->memory_, os::MapHugePages(call_bytes));
  plain->buffer_ = plain->memory_.data();
  std::memset(plain->buffer_, 0, call_bytes);  // resident from here on
  return plain;
}

PlainFile::~PlainFile() {
  if (fd_) ::unlink(file_.c_str());
}

Status PlainFile::ForCalls(const std::function<Status(uint64_t, uint64_t)>& use) const {
  for (uint64_t at = 0; at < bytes_; at += call_bytes_) {
    ONECOPY_RETURN_IF_ERROR(use(at, std::min(call_bytes_, bytes_ - at)));
  }
  return OkStatus();
}

// Regular files give and take whole calls, except on a full disk and after errors.
Status PlainFile::Read(uint64_t at, uint64_t bytes) const {
  const ssize_t count = ::pread(fd_.get(), buffer_, bytes, static_cast<off_t>(at));
  if (count == static_cast<ssize_t>(bytes)) return OkStatus();
  return FileStatus(count < 0 ? errno : EIO, file_, bytes_);
}

Status PlainFile::Fill(uint64_t seed) {
  FillPayload(payload_.data(), bytes_, seed);
  return ForCalls([this](uint64_t at, uint64_t bytes) {
    const ssize_t count = ::pwrite(fd_.get(), payload_.data() + at, bytes, static_cast<off_t>(at));
    if (count == static_cast<ssize_t>(bytes)) return OkStatus();
    return FileStatus(count < 0 ? errno : ENOSPC, file_, bytes_);
  });
}

Result<Moved> PlainFile::Move() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  ONECOPY_RETURN_IF_ERROR(
      ForCalls([this](uint64_t at, uint64_t bytes) { return Read(at, bytes); }));
  return Moved{.seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
}

Result<bool> PlainFile::Verify(uint64_t seed) {
  FillPayload(payload_.data(), bytes_, seed);
  bool right = true;
  ONECOPY_RETURN_IF_ERROR(ForCalls([&](uint64_t at, uint64_t bytes) {
    ONECOPY_RETURN_IF_ERROR(Read(at, bytes));
    right = right && std::memcmp(buffer_, payload_.data() + at, bytes) == 0;
    return OkStatus();
  }));
  return right;
}

}  // namespace onecopy::bench
