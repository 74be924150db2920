#include "bench/ceiling/plain_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "bench/measure/payload.h"
#include "transport/core/reasons.h"
#include "transport/core/size.h"
#include "transport/os/error.h"

namespace onecopy::bench {
namespace {

Status FileStatus(int error, const std::string& file, uint64_t bytes) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return {Code::kResourceExhausted, reasons::kNoSpace,
            "there is no room for a file of " + FormatBytes(bytes) + " at " + file,
            "name a folder with more room by TMPDIR"};
  }
  if (error == EINVAL) {
    return {Code::kFailedPrecondition, reasons::kNotApplicable,
            file + " cannot be read past the page cache on its file system",
            "name a folder on a disk by TMPDIR"};
  }
  return os::ErrnoStatus(error, "using " + file);
}

}  // namespace

Result<std::unique_ptr<PlainFile>> PlainFile::Create(const std::string& file, uint64_t bytes,
                                                     uint64_t call_bytes) {
  std::unique_ptr<PlainFile> plain(new PlainFile(file, call_bytes));
  plain->fd_ =
      os::UniqueFd(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600));
  if (!plain->fd_) return FileStatus(errno, file, bytes);
  if (const int error = ::posix_fallocate(plain->fd_.get(), 0, static_cast<off_t>(bytes))) {
    return FileStatus(error, file, bytes);
  }
  ONECOPY_ASSIGN_OR_RETURN(plain->memory_, os::MapAnonymous(bytes));
  std::memset(plain->memory_.data(), 0, bytes);  // resident from here on
  return plain;
}

PlainFile::~PlainFile() {
  if (fd_) ::unlink(file_.c_str());
}

Status PlainFile::Fill(uint64_t seed) {
  FillPayload(memory_.data(), memory_.bytes(), seed);
  for (uint64_t at = 0; at < memory_.bytes();) {
    const ssize_t written =
        ::pwrite(fd_.get(), memory_.data() + at, std::min(call_bytes_, memory_.bytes() - at),
                 static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return FileStatus(errno, file_, memory_.bytes());
    at += static_cast<uint64_t>(written);
  }
  std::memset(memory_.data(), 0, memory_.bytes());
  return OkStatus();
}

Result<Moved> PlainFile::Move() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (uint64_t at = 0; at < memory_.bytes();) {
    const ssize_t count =
        ::pread(fd_.get(), memory_.data() + at, std::min(call_bytes_, memory_.bytes() - at),
                static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return FileStatus(count == 0 ? EIO : errno, file_, memory_.bytes());
    at += static_cast<uint64_t>(count);
  }
  return Moved{.seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
}

Result<bool> PlainFile::Verify(uint64_t seed) {
  return !FindWrong(memory_.data(), memory_.bytes(), seed);
}

}  // namespace onecopy::bench
