#include "bench/work/peak_memory.h"

#include <algorithm>
#include <chrono>

#include "bench/daemons/process_facts.h"

namespace onecopy::bench {
namespace {

constexpr std::chrono::milliseconds kLookEvery{2};
constexpr uint64_t kMemoryBesideSlots = uint64_t{128} << 20;
constexpr uint64_t kDefaultSlotBytes = uint64_t{2} << 20;
constexpr unsigned kDefaultSlots = 64;

}  // namespace

DaemonOptions WithKnownSlots(DaemonOptions daemon) {
  daemon.slot_bytes = daemon.slot_bytes.value_or(kDefaultSlotBytes);
  daemon.slots = daemon.slots.value_or(kDefaultSlots);
  return daemon;
}

uint64_t MemoryLimit(const DaemonOptions& daemon) {
  return daemon.slot_bytes.value_or(kDefaultSlotBytes) * daemon.slots.value_or(kDefaultSlots) +
         kMemoryBesideSlots;
}

double PeakMemory::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  Look();
  return static_cast<double>(most_);
}

void PeakMemory::Run() {
  while (!stop_) {
    Look();
    std::this_thread::sleep_for(kLookEvery);
  }
}

void PeakMemory::Look() {
  const Result<ResidentBytes> now = ReadResident(pid_);
  if (!now.ok()) return;  // it has ended; the transfer tells
  const uint64_t shared = now->shared - std::min(now->shared, buffer_bytes_);
  most_ = std::max(most_, now->anonymous + shared);
}

}  // namespace onecopy::bench
