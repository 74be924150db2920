#include "daemon/engine/base/pattern.h"

#include <algorithm>
#include <cstring>
#include <future>

#include "daemon/engine/base/routes.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

uint64_t WordAt(uint64_t index, uint64_t seed) {
  uint64_t word = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  word ^= word >> 31;
  return word | 1;  // memory that was never written is zero
}

// Copies the first `bytes` of one region, from there on, to the other's beginning.
Status CopyAcross(Context& context, const RegionRef& from, uint64_t from_offset,
                  const RegionRef& to, uint64_t bytes) {
  Copier* memory = context.CopierFor(from->place(), to->place());
  if (memory == nullptr) {
    return {Code::kFailedPrecondition, reasons::kNotApplicable,
            "this node cannot copy from " + from->step_name() + " to " + to->step_name()};
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<CopyRoute> route, memory->Prepare(from, to));
  const uint64_t chunk = std::max<uint64_t>(route->chunk_bytes(), 1);
  for (uint64_t at = 0; at < bytes; at += chunk) {
    std::promise<Status> copied;
    route->Copy(from_offset + at, at, std::min(chunk, bytes - at),
                [&](const Status& status, const StepList&) { copied.set_value(status); });
    ONECOPY_RETURN_IF_ERROR(copied.get_future().get());
  }
  return OkStatus();
}

Result<RegionRef> AllocateHost(Context& context, uint64_t bytes) {
  return AllocateAt(context, {"host", {}}, bytes);
}

}  // namespace

void FillPattern(std::byte* out, uint64_t offset, uint64_t bytes, uint64_t seed) {
  uint64_t done = 0;
  while (done < bytes) {
    const uint64_t at = offset + done;
    const uint64_t word = WordAt(at / kWord, seed);
    const uint64_t within = at % kWord;
    const uint64_t piece = std::min(kWord - within, bytes - done);
    std::memcpy(out + done, reinterpret_cast<const std::byte*>(&word) + within, piece);
    done += piece;
  }
}

Result<RegionRef> AllocateAt(Context& context, const Place& place, uint64_t bytes) {
  Memory* memory = context.FindMemory(place.kind);
  if (memory == nullptr) {
    return Status(Code::kNotFound, reasons::kDeviceNotFound,
                  "node " + context.node() + " has no memory of kind \"" + place.kind + "\"");
  }
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, memory->Allocate(place.device, bytes));
  return context.workers.Share(WorkerOf(place), std::move(region));
}

Status WritePattern(Context& context, const RegionRef& region, uint64_t seed) {
  if (region->cpu_addressable()) {
    FillPattern(region->address(), 0, region->bytes(), seed);
    return OkStatus();
  }
  ONECOPY_ASSIGN_OR_RETURN(const RegionRef host, AllocateHost(context, region->bytes()));
  FillPattern(host->address(), 0, host->bytes(), seed);
  return CopyAcross(context, host, 0, region, region->bytes());
}

Status CheckPattern(Context& context, const Span& span, uint64_t seed) {
  std::vector<std::byte> copy;
  const std::byte* seen = nullptr;
  if (span.region->cpu_addressable()) {
    seen = span.address();
  } else {
    ONECOPY_ASSIGN_OR_RETURN(copy, ReadBytes(context, span));
    seen = copy.data();
  }
  constexpr uint64_t kPiece = 4096;
  std::byte expected[kPiece];
  for (uint64_t at = 0; at < span.bytes; at += kPiece) {
    const uint64_t bytes = std::min(kPiece, span.bytes - at);
    FillPattern(expected, span.offset + at, bytes, seed);
    if (std::memcmp(seen + at, expected, bytes) == 0) continue;
    const auto wrong = std::mismatch(expected, expected + bytes, seen + at).first - expected;
    return {Code::kDataLoss, reasons::kChecksumMismatch,
            "byte " + std::to_string(at + static_cast<uint64_t>(wrong)) + " of " +
                std::to_string(span.bytes) + " was read with a wrong value"};
  }
  return OkStatus();
}

Result<std::vector<std::byte>> ReadBytes(Context& context, const Span& span) {
  std::vector<std::byte> bytes(span.bytes);
  if (span.region->cpu_addressable()) {
    std::memcpy(bytes.data(), span.address(), span.bytes);
    ONECOPY_RETURN_IF_ERROR(span.region->CheckIntact());
    return bytes;
  }
  ONECOPY_ASSIGN_OR_RETURN(const RegionRef host, AllocateHost(context, span.bytes));
  ONECOPY_RETURN_IF_ERROR(CopyAcross(context, span.region, span.offset, host, span.bytes));
  std::memcpy(bytes.data(), host->address(), span.bytes);
  return bytes;
}

}  // namespace onecopy::engine
