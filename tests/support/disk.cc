#include "tests/support/disk.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "tests/support/process.h"

namespace onecopy::testing {
namespace {

std::string Because(const std::string& what) { return what + ": " + std::strerror(errno); }

// What is mounted from here on, others do not see.
bool HasOwnMounts(std::string& why) {
  static thread_local const bool has =
      ::unshare(CLONE_NEWNS) == 0 &&
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  if (!has) why = "this process may mount nothing";
  return has;
}

// Of a program that makes a file system; false where there is none, or it fails.
bool RunToItsEnd(const std::string& program, std::vector<std::string> arguments) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/"}) {
    if (!std::filesystem::exists(folder + program)) continue;
    Process made({.program = folder + program, .arguments = std::move(arguments)});
    made.ReadAll();
    return made.Wait() == 0;
  }
  return false;
}

}  // namespace

std::unique_ptr<BlockDevice> BlockDevice::Make(const std::string& folder, uint64_t bytes,
                                               std::string& why) {
  const std::string name = folder + "/disk-XXXXXX";
  std::string made = name;
  const os::UniqueFd file(::mkostemp(made.data(), O_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    throw std::runtime_error(Because("making a file for a disk in " + folder));
  }
  ::unlink(made.c_str());
  const os::UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) {
    why = Because("there are no loop devices for this process");
    return nullptr;
  }
  loop_config config{};
  config.fd = static_cast<uint32_t>(file.get());
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
  constexpr int kAttempts = 100;  // others may take a free one first
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) break;
    std::string path = "/dev/loop" + std::to_string(number);
    os::UniqueFd device(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!device) break;
    if (::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) {
      return std::unique_ptr<BlockDevice>(new BlockDevice(std::move(path), std::move(device)));
    }
    if (errno != EBUSY) break;
  }
  why = Because("no loop device is to be had");
  return nullptr;
}

std::unique_ptr<Disk> Disk::Make(const std::string& kind, const std::string& folder, uint64_t bytes,
                                 std::string& why) {
  if (!HasOwnMounts(why)) return nullptr;
  std::unique_ptr<BlockDevice> device = BlockDevice::Make(folder, bytes, why);
  if (device == nullptr) return nullptr;
  if (!RunToItsEnd("mkfs." + kind, {"-q", device->path()})) {
    why = "mkfs." + kind + " is not there, or makes none";
    return nullptr;
  }
  std::string path = folder + "/mounted-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error(Because("making a folder"));
  if (::mount(device->path().c_str(), path.c_str(), kind.c_str(), 0, nullptr) != 0) {
    why = Because("this kernel mounts no " + kind);
    return nullptr;
  }
  if (::chmod(path.c_str(), 0777) != 0) throw std::runtime_error(Because("opening " + path));
  return std::unique_ptr<Disk>(new Disk(std::move(path), std::move(device)));
}

Disk::~Disk() {
  if (frozen_) Thaw();
  ::umount2(path_.c_str(), MNT_DETACH);
  ::rmdir(path_.c_str());
}

bool Disk::Freeze() {
  const os::UniqueFd folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  frozen_ = folder && ::ioctl(folder.get(), FIFREEZE, 0) == 0;
  return frozen_;
}

bool Disk::Thaw() {
  const os::UniqueFd folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::ioctl(folder.get(), FITHAW, 0) != 0) return false;
  frozen_ = false;
  return true;
}

}  // namespace onecopy::testing
