#include "daemon/rundir/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/files/path_owners.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy {
namespace {

constexpr char kDefault[] = "/run/onecopy";
constexpr char kApi[] = "/api.sock";
constexpr char kAttach[] = "/attach.sock";
constexpr char kRemedy[] = "name a folder that you own with --run-dir";

Status Denied(const std::string& message) {
  return {Code::kPermissionDenied, reasons::kAccessDenied, message, kRemedy};
}

// Makes the folder where it is missing, and checks that this process may serve in it.
Status Prepare(const std::string& path) {
  for (const char* socket : {kApi, kAttach}) {
    if (const Status status = os::CheckSocketPath(path + socket); !status.ok()) {
      return {status.code(), status.reason(), status.message(),
              "name a folder with a shorter path with --run-dir"};
    }
  }
  if (const Status status = os::CheckPathOwners(path, os::PathTrust::kWhereShared); !status.ok()) {
    return {status.code(), status.reason(), status.message(), kRemedy};
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  // A failure shows again here.
  if (::mkdir(path.c_str(), 0755) == 0) {
    if (::chmod(path.c_str(), 0755) == 0) return OkStatus();  // whatever the umask
    return os::ErrnoStatus(errno, "making the run directory " + path, kRemedy);
  }
  if (errno != EEXIST) {
    return os::ErrnoStatus(errno, "making the run directory " + path, kRemedy);
  }
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    return os::ErrnoStatus(errno, "looking at the run directory " + path, kRemedy);
  }
  if (!S_ISDIR(facts.st_mode)) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "the run directory " + path + " is not a folder", kRemedy};
  }
  // The folder's owner could replace the sockets that clients trust.
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0) {
    return Denied("the run directory " + path + " belongs to uid " + std::to_string(facts.st_uid) +
                  ", and this daemon runs as uid " + std::to_string(::geteuid()));
  }
  if ((facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return Denied("all users may replace files in the run directory " + path);
  }
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return os::ErrnoStatus(errno, "writing in the run directory " + path, kRemedy);
  }
  return OkStatus();
}

// The pid that the lock's holder has written; it may not have come to that yet.
std::string HolderOf(int lock) {
  std::array<char, 32> text{};
  const ssize_t got = ::pread(lock, text.data(), text.size() - 1, 0);
  const std::string pid(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  const size_t digits = pid.find_first_not_of("0123456789");
  return digits == 0 || pid.empty() ? "" : " (pid " + pid.substr(0, digits) + ")";
}

Result<os::UniqueFd> Lock(const std::string& path) {
  const std::string file = path + "/lock";
  os::UniqueFd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!lock) return os::ErrnoStatus(errno, "opening " + file, kRemedy);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return os::ErrnoStatus(errno, "locking " + file, kRemedy);
    return Status(Code::kUnavailable, reasons::kNameTaken,
                  "another onecopyd" + HolderOf(lock.get()) + " serves in " + path,
                  "stop it, or give each daemon its own --run-dir");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.get(), 0) != 0 ||
      ::pwrite(lock.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return os::ErrnoStatus(errno, "writing " + file, kRemedy);
  }
  return lock;
}

Result<std::string> Choose(const std::string& asked) {
  if (!asked.empty()) {
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(asked, error);
    if (error) return os::ErrnoStatus(error.value(), "the run directory " + asked, kRemedy);
    // Without what would make paths longer than need be, such as "./x/".
    std::string path = absolute.lexically_normal().string();
    if (path.size() > 1 && path.ends_with('/')) path.pop_back();
    ONECOPY_RETURN_IF_ERROR(Prepare(path));
    return path;
  }
  const Status first = Prepare(kDefault);
  if (first.ok()) return std::string(kDefault);
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime == nullptr || *runtime == '\0') {
    return Denied(first.message() + ", and XDG_RUNTIME_DIR is not set");
  }
  const std::string second = std::string(runtime) + "/onecopy";
  const Status status = Prepare(second);
  if (!status.ok()) return Denied(first.message() + "; " + status.message());
  return second;
}

}  // namespace

Result<RunDir> RunDir::Claim(const std::string& asked) {
  ONECOPY_ASSIGN_OR_RETURN(std::string path, Choose(asked));
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd lock, Lock(path));
  return RunDir(std::move(path), std::move(lock));
}

std::string RunDir::ApiSocket() const { return path_ + kApi; }
std::string RunDir::AttachSocket() const { return path_ + kAttach; }

}  // namespace onecopy
