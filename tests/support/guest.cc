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
#include <iterator>
#include <nlohmann/json.hpp>
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

// Runs a command of the administrator's. Throws unless it succeeds.
void Do(const std::string& program, std::vector<std::string> arguments) {
  std::string command = program;
  for (const std::string& argument : arguments) command += " " + argument;
  const int status = Process({.program = program, .arguments = std::move(arguments)}).Wait();
  if (status != 0)
    throw std::runtime_error(command + " ended with status " + std::to_string(status));
}

// The same at the end of a scope, where throwing is not possible.
void Undo(const std::string& program, std::vector<std::string> arguments) {
  try {
    Do(program, std::move(arguments));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the network stays as a test made it: %s\n", error.what());
  }
}

}  // namespace

PacketLoss::PacketLoss(std::string interface, int percent) : interface_(std::move(interface)) {
  Do("/sbin/tc",
     {"qdisc", "add", "dev", interface_, "root", "netem", "loss", std::to_string(percent) + "%"});
}

PacketLoss::~PacketLoss() { Undo("/sbin/tc", {"qdisc", "del", "dev", interface_, "root"}); }

LinkDown::LinkDown(const GuestDevice& device) : device_(device) {
  Do("/sbin/ip", {"link", "set", device_.interface, "down"});
}

LinkDown::~LinkDown() {
  Undo("/sbin/ip", {"link", "set", device_.interface, "up"});
  // The kernel has dropped the route that guest/inside.sh made for sockets of this address.
  for (size_t i = 0; i < std::size(kGuestDevices); ++i) {
    if (std::string(kGuestDevices[i].name) == device_.name)
      Undo("/sbin/ip", {"route", "replace", std::string(kGuestDevices[1 - i].address) + "/32",
                        "dev", device_.interface, "table", "10" + std::to_string(i)});
  }
}

std::map<std::string, uint64_t> RdmaCounters(const std::string& device) {
  // Not from /sys, which repeats the last answer for a while.
  Process rdma({.program = "/usr/bin/rdma",
                .arguments = {"-j", "statistic", "show", "link", device + "/1"}});
  const std::string answer = rdma.ReadAll();
  const auto document = nlohmann::json::parse(answer, nullptr, false);
  if (rdma.Wait() != 0 || !document.is_array() || document.empty())
    throw std::runtime_error("rdma statistic show link " + device + "/1 said: " + answer);
  std::map<std::string, uint64_t> counters;
  for (const auto& [name, value] : document[0].items()) {
    if (name != "port" && value.is_number_unsigned()) counters[name] = value.get<uint64_t>();
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
