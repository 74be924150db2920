// What the guest of the suite rdma has (tests/rdma), for tests that run in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

// One of its two RDMA devices.
struct GuestDevice {
  const char* name;       // libibverbs'
  const char* interface;  // the network device below it
  const char* address;
};
inline constexpr GuestDevice kGuestDevices[] = {{"rxe0", "rn0", "10.77.0.1"},
                                                {"rxe1", "rn1", "10.77.0.2"}};

// Loses packets that leave through a network interface, for as long as it lives: one direction.
// Throws where the kernel refuses. One at a time for an interface.
class PacketLoss {
 public:
  explicit PacketLoss(std::string interface, int percent = 100);
  ~PacketLoss();
  PacketLoss(const PacketLoss&) = delete;
  PacketLoss& operator=(const PacketLoss&) = delete;

 private:
  const std::string interface_;
};

// Takes a device's network interface down for as long as it lives: both devices' ports are down
// then, since the interfaces are the ends of one wire. Throws where the kernel refuses. One at a
// time.
class LinkDown {
 public:
  explicit LinkDown(const GuestDevice& device);
  ~LinkDown();
  LinkDown(const LinkDown&) = delete;
  LinkDown& operator=(const LinkDown&) = delete;

 private:
  const GuestDevice& device_;
};

// The counters of an RDMA device's only port: sent_pkts, rcvd_pkts, rdma_sends, retry_exceeded_err
// and the like. They only grow. Throws where there is no such device.
std::map<std::string, uint64_t> RdmaCounters(const std::string& device);

// A dma-buf of a memfd's pages. Its bytes are zero at first.
class DmaBuf {
 public:
  // Why there can be none here, or "".
  static std::string WhyNot();

  // `bytes` is rounded up to whole pages. Throws where it cannot be made.
  explicit DmaBuf(size_t bytes);
  ~DmaBuf();
  DmaBuf(const DmaBuf&) = delete;
  DmaBuf& operator=(const DmaBuf&) = delete;

  int fd() const { return fd_.get(); }
  int memory_fd() const { return memory_.get(); }
  uint64_t inode() const;  // the dma-buf's
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  os::UniqueFd memory_;
  os::UniqueFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace onecopy::testing
