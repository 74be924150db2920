#include "tests/conformance/memory/bytes.h"

#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/event.h"
#include "transport/memory/host/host_memory.h"

namespace onecopy::testing {
namespace {

Memory& TheHostMemory() {
  static host::HostMemory memory("test", 2);
  return memory;
}

void CopyAll(Memory& memory, const RegionRef& from, const RegionRef& to) {
  auto route = memory.Prepare(from, to);
  REQUIRE_OK(route);
  REQUIRE_OK(CopyNow(**route, 0, 0, from->bytes()).status);
}

}  // namespace

Bytes Pattern(uint64_t bytes, unsigned seed) {
  Bytes pattern(bytes);
  uint64_t state = seed * uint64_t{0x9e3779b97f4a7c15} + 1;
  for (unsigned char& byte : pattern) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<unsigned char>(state >> 56);
  }
  return pattern;
}

Outcome CopyNow(CopyRoute& route, uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  Outcome outcome;
  Event done;
  route.Copy(from_offset, to_offset, bytes, [&](const Status& status, const StepList& steps) {
    outcome = {status, steps, route.executor().InThread()};
    done.Set();
  });
  done.Wait();
  return outcome;
}

Outcome CopyManyNow(CopyRoute& route, std::vector<StridedCopy> copies) {
  Outcome outcome;
  Event done;
  route.CopyMany(std::move(copies), [&](const Status& status, const StepList& steps) {
    outcome = {status, steps, route.executor().InThread()};
    done.Set();
  });
  done.Wait();
  return outcome;
}

RegionRef HostRegion(const Bytes& content) {
  auto region = TheHostMemory().Allocate("", content.size());
  REQUIRE_OK(region);
  std::memcpy((*region)->address(), content.data(), content.size());
  return RegionRef(std::move(*region));
}

Bytes ReadAll(Memory& memory, const RegionRef& region) {
  Bytes content(region->bytes());
  RegionRef host = region;
  if (!region->cpu_addressable()) {
    host = HostRegion(content);
    CopyAll(memory, region, host);
  }
  std::memcpy(content.data(), host->address(), content.size());
  return content;
}

void WriteAll(Memory& memory, const RegionRef& region, const Bytes& content) {
  REQUIRE(content.size() == region->bytes());
  if (region->cpu_addressable()) {
    std::memcpy(region->address(), content.data(), content.size());
    return;
  }
  CopyAll(memory, HostRegion(content), region);
}

}  // namespace onecopy::testing
