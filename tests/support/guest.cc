#include "tests/support/guest.h"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/support/process.h"

namespace onecopy::testing {
namespace {

constexpr const char* kUdmabuf = "/dev/udmabuf";

[[noreturn]] void ThrowErrno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int TrafficControl(std::vector<std::string> arguments) {
  return Process({.program = "/sbin/tc", .arguments = std::move(arguments)}).Wait();
}

}  // namespace

PacketLoss::PacketLoss(std::string interface, int percent) : interface_(std::move(interface)) {
  const int status = TrafficControl(
      {"qdisc", "add", "dev", interface_, "root", "netem", "loss", std::to_string(percent) + "%"});
  if (status != 0)
    throw std::runtime_error("tc ended with status " + std::to_string(status) + " on " +
                             interface_);
}

PacketLoss::~PacketLoss() {
  try {
    if (TrafficControl({"qdisc", "del", "dev", interface_, "root"}) == 0) return;
    std::fprintf(stderr, "packets still get lost on %s\n", interface_.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "packets still get lost on %s: %s\n", interface_.c_str(), error.what());
  }
}

std::map<std::string, uint64_t> RdmaCounters(const std::string& device) {
  std::map<std::string, uint64_t> counters;
  const std::string folder = "/sys/class/infiniband/" + device + "/ports/1/hw_counters";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    uint64_t value = 0;
    if (std::ifstream(file.path()) >> value) counters[file.path().filename()] = value;
  }
  return counters;
}

std::string DmaBuf::WhyNot() {
  if (::access(kUdmabuf, R_OK | W_OK) == 0) return {};
  return std::string("this kernel has no ") + kUdmabuf + ": " + std::strerror(errno);
}

DmaBuf::DmaBuf(size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t size = (bytes + page - 1) / page * page;
  const os::UniqueFd device(::open(kUdmabuf, O_RDWR | O_CLOEXEC));
  if (device.get() < 0) ThrowErrno(kUdmabuf);
  memory_ = os::UniqueFd(
      static_cast<int>(::memfd_create("onecopy-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (memory_.get() < 0 || ::ftruncate(memory_.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    ThrowErrno("a memfd of " + std::to_string(size) + " bytes");
  udmabuf_create request = {};
  request.memfd = static_cast<uint32_t>(memory_.get());
  request.flags = UDMABUF_FLAGS_CLOEXEC;
  request.size = size;
  fd_ = os::UniqueFd(::ioctl(device.get(), UDMABUF_CREATE, &request));
  if (fd_.get() < 0) ThrowErrno("UDMABUF_CREATE of " + std::to_string(size) + " bytes");
  void* const base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (base == MAP_FAILED) ThrowErrno("mmap");
  bytes_ = {static_cast<std::byte*>(base), size};
}

DmaBuf::~DmaBuf() { ::munmap(bytes_.data(), bytes_.size()); }

uint64_t DmaBuf::inode() const {
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0) ThrowErrno("fstat");
  return status.st_ino;
}

}  // namespace onecopy::testing
