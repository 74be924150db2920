// Bytes to compare, and ways to put them into a region and to get them out of it.
#pragma once

#include <cstdint>
#include <string>

#include "onecopy/result.h"
#include "tests/conformance/memory/subject.h"
#include "transport/core/contracts/memory.h"

namespace onecopy::testing {

// `bytes` bytes that look random and depend on the seed.
Bytes Pattern(uint64_t bytes, unsigned seed);

struct Outcome {
  Status status;
  StepList steps;
  bool on_executor = false;
};

// One copy, waited for.
Outcome CopyNow(CopyRoute& route, uint64_t from_offset, uint64_t to_offset, uint64_t bytes);

// Many copies as one piece of work, waited for.
Outcome CopyManyNow(CopyRoute& route, std::vector<StridedCopy> copies);

// Host memory of a HostMemory that lives as long as the program.
RegionRef HostRegion(const Bytes& content);

// Reads and writes a region: directly where the processor can, else by a route of `memory`.
Bytes ReadAll(Memory& memory, const RegionRef& region);
void WriteAll(Memory& memory, const RegionRef& region, const Bytes& content);

}  // namespace onecopy::testing
