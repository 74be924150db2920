#include "transport/tls/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::tls {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr char kForms[] =
    "ca, certificate, key and crl of [tls] must be PEM files; onecopy cert makes them if you have "
    "no CA";

Result<os::UniqueFd> OpenFile(const std::string& path) {
  // A FIFO or a device must not hold the caller.
  os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return os::ErrnoStatus(errno, "opening " + path + " of [tls]");
  return fd;
}

Result<std::string> ReadAll(int fd, const std::string& path) {
  std::string text;
  std::array<char, 16384> piece{};
  while (true) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os::ErrnoStatus(errno, "reading " + path + " of [tls]");
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > kMaxFileBytes) return BadFile(path, "is too long for such a file");
  }
}

Status WriteAll(int fd, const std::string& text, const std::string& path) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return os::ErrnoStatus(errno, "writing " + path);
    done += static_cast<size_t>(wrote);
  }
  if (::fsync(fd) != 0) return os::ErrnoStatus(errno, "writing " + path);
  return OkStatus();
}

std::string Octal(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

}  // namespace

Status BadFile(const std::string& path, const std::string& why, const std::string& remedy) {
  return {Code::kInvalidArgument, reasons::kBadConfig, "[tls] " + path + ": " + why,
          remedy.empty() ? kForms : remedy};
}

Status WritePem(const std::string& path, const std::string& text, bool secret, bool replace) {
  std::string temporary = path + ".XXXXXX";
  const os::UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));  // 0600
  if (!fd) return os::ErrnoStatus(errno, "making " + path);
  Status status = WriteAll(fd.get(), text, path);
  if (status.ok() && !secret && ::fchmod(fd.get(), 0644) != 0) {
    status = os::ErrnoStatus(errno, "writing " + path);
  }
  const unsigned flags = replace ? 0 : RENAME_NOREPLACE;
  if (status.ok() && ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), flags) == 0) {
    return OkStatus();
  }
  if (status.ok()) {
    status = os::ErrnoStatus(errno, "making " + path,
                             errno == EEXIST ? "remove it, or choose another folder" : "");
  }
  ::unlink(temporary.c_str());
  return status;
}

Result<std::string> ReadPem(const std::string& path) {
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd fd, OpenFile(path));
  return ReadAll(fd.get(), path);
}

Result<std::string> ReadPrivateKey(const std::string& path) {
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd fd, OpenFile(path));
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return os::ErrnoStatus(errno, path + " of [tls]");
  const auto refuse = [&](const std::string& why, const std::string& remedy) {
    return Status(Code::kPermissionDenied, reasons::kAccessDenied, "[tls] key " + path + ": " + why,
                  remedy);
  };
  // Root reads whatever it likes, and may check a file for the daemon's own user.
  if (file.st_uid != 0 && file.st_uid != ::geteuid() && ::geteuid() != 0) {
    return refuse("belongs to uid " + std::to_string(file.st_uid) +
                      ", and that user could read and replace it",
                  "give it to root or to the user that runs the daemon");
  }
  const mode_t allowed = file.st_uid == 0 ? S_IRWXU | S_IRGRP : S_IRWXU;
  if (S_ISREG(file.st_mode) && (file.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO) & ~allowed) != 0) {
    return refuse("other users may read it (its mode is " + Octal(file.st_mode) + ")",
                  "chmod " + std::string(file.st_uid == 0 ? "640 " : "600 ") + path +
                      ", and make a new key if another user may have read this one");
  }
  return ReadAll(fd.get(), path);
}

}  // namespace onecopy::tls
