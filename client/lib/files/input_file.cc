#include "client/lib/files/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/lib/files/named_file.h"
#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::client {
namespace {

constexpr uint64_t kReadAtOnce = 8 << 20;  // read at once, between two looks at the waiter

}  // namespace

InputFile::InputFile(std::string name, os::UniqueFd owned, int fd)
    : name_(std::move(name)), owned_(std::move(owned)), fd_(fd) {}

Result<InputFile> InputFile::Open(const LocalFile& file) {
  os::UniqueFd owned;
  if (file.fd < 0) {
    ONECOPY_RETURN_IF_ERROR(CheckPath(file.path));
    // Non-blocking, so that neither a FIFO without writer nor an idle one makes us deaf to a stop.
    constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    owned = os::UniqueFd(::open(file.path.c_str(), kFlags));
    if (!owned) return os::ErrnoStatus(errno, "opening " + file.path);
  }
  const int fd = file.fd < 0 ? owned.get() : file.fd;
  InputFile input(file.path, std::move(owned), fd);
  ONECOPY_RETURN_IF_ERROR(input.Measure(file));
  return input;
}

Status InputFile::Measure(const LocalFile& file) {
  struct stat facts {};
  if (::fstat(fd_, &facts) != 0) return os::ErrnoStatus(errno, "looking at " + name_);
  if (S_ISDIR(facts.st_mode)) {
    return {Code::kInvalidArgument, reasons::kBadArgument, name_ + " is a folder",
            "name a file; for many files, pack them: `tar c FOLDER | onecopy cp - BUFFER`"};
  }
  if ((facts.st_mode & S_IFMT) == 0) {
    // An event counter or the like, which got the number of a stream that was closed.
    return {Code::kInvalidArgument, reasons::kBadArgument, name_ + " is not open"};
  }
  bytes_ = file.bytes;
  std::optional<uint64_t> length;
  std::byte probe{};
  // A file that says it is empty and is not is one of /proc's: it has no length until it is read.
  if (S_ISREG(facts.st_mode) && (facts.st_size > 0 || ::pread(fd_, &probe, 1, 0) == 0)) {
    length = static_cast<uint64_t>(facts.st_size);
  } else if (S_ISBLK(facts.st_mode)) {
    const off_t position = ::lseek(fd_, 0, SEEK_CUR);
    const off_t end = ::lseek(fd_, 0, SEEK_END);
    if (position < 0 || end < 0 || ::lseek(fd_, position, SEEK_SET) < 0) {
      return os::ErrnoStatus(errno, "finding the length of " + name_);
    }
    length = static_cast<uint64_t>(end);
  }
  if (!length.has_value()) {
    if (file.offset_bytes.value_or(0) == 0) return OkStatus();
    if (::lseek(fd_, static_cast<off_t>(*file.offset_bytes), SEEK_SET) < 0) {
      return os::ErrnoStatus(
          errno, "seeking to byte " + std::to_string(*file.offset_bytes) + " of " + name_,
          "leave out the range: a stream is read from its current position");
    }
    return OkStatus();
  }
  if (file.fd >= 0 && !file.offset_bytes.has_value()) {
    // Read on from its position, and leave it behind what was read, as others who share it expect.
    const off_t position = ::lseek(fd_, 0, SEEK_CUR);
    if (position < 0) return os::ErrnoStatus(errno, "finding the position in " + name_);
    at_ = static_cast<uint64_t>(position);
  } else {
    kind_ = Kind::kSeekable;
    at_ = file.offset_bytes.value_or(0);
  }
  const uint64_t rest = *length - std::min(*length, at_);
  if (file.offset_bytes.has_value() || file.bytes.has_value()) {
    ONECOPY_RETURN_IF_ERROR(CheckWithin({at_, file.bytes.value_or(rest)}, *length, name_));
  }
  bytes_ = file.bytes.value_or(rest);
  return OkStatus();
}

Result<uint64_t> InputFile::Read(std::byte* to, uint64_t bytes, const Waiter& waiter) {
  if (bytes_.has_value()) bytes = std::min(bytes, *bytes_ - read_);
  uint64_t got = 0;
  while (got < bytes) {
    if (kind_ == Kind::kStream) {
      ONECOPY_RETURN_IF_ERROR(waiter.Wait(fd_, POLLIN));
    } else {
      ONECOPY_RETURN_IF_ERROR(waiter.Check());
    }
    const uint64_t piece = std::min(bytes - got, kReadAtOnce);
    const ssize_t count = kind_ == Kind::kStream
                              ? ::read(fd_, to + got, piece)
                              : ::pread(fd_, to + got, piece, static_cast<off_t>(at_));
    if (count < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return os::ErrnoStatus(errno, "reading " + name_);
    }
    if (count == 0) {
      if (!bytes_.has_value()) break;
      return Status(Code::kDataLoss, reasons::kIo,
                    name_ + " ended after " + std::to_string(read_ + got) + " of " +
                        std::to_string(*bytes_) + " bytes",
                    "copy it again while no other program changes it");
    }
    got += static_cast<uint64_t>(count);
    at_ += static_cast<uint64_t>(count);
  }
  read_ += got;
  return got;
}

}  // namespace onecopy::client
