#include "daemon/engine/probing/probe_slabs.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/pattern.h"
#include "daemon/engine/base/routes.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMaxSlabs = 4;
// The closing of one may be heard after the opening of the next.
constexpr int kMaxOfCaller = 2;
constexpr size_t kMaxWithClosing = 16;
constexpr std::chrono::seconds kSlabLifetime{20};  // where the reader never says that it is done

Status Gone() {
  return {Code::kCancelled, reasons::kCancelled, "the probe was closed while it was being opened"};
}

}  // namespace

Status ProbeSlabs::Check(const std::string& caller, const OpenProbeRequest& request) const {
  const std::string& node = context_.node();
  if (request.bytes == 0 || request.bytes > kMaxProbeBytes) {
    return {Code::kInvalidArgument, reasons::kBadSize,
            "a probe of " + std::to_string(request.bytes) + " bytes: at most " +
                std::to_string(kMaxProbeBytes) + " are possible"};
  }
  const bool self = context_.IsSelf(caller);
  const auto lent = std::count_if(slabs_.begin(), slabs_.end(),
                                  [](const auto& slab) { return !slab.second.unwanted; });
  const auto to_caller = std::count_if(slabs_.begin(), slabs_.end(), [&](const auto& slab) {
    return !slab.second.unwanted && slab.second.caller == caller;
  });
  const bool too_many = to_caller >= kMaxOfCaller || static_cast<size_t>(lent) >= kMaxSlabs ||
                        slabs_.size() >= kMaxWithClosing;
  if (!self && too_many) {
    return {Code::kResourceExhausted, reasons::kQuota,
            "node " + node + " has no more memory for probes at the moment"};
  }
  const NodeCapability& here = catalog_.capabilities();
  const MemoryCapability* memory = here.FindMemory(request.memory, request.device);
  if (memory == nullptr || context_.FindMemory(request.memory) == nullptr) {
    return {Code::kNotFound, reasons::kDeviceNotFound,
            "node " + node + " does not have the memory that the probe names"};
  }
  if (memory->viability.viable) return OkStatus();
  return {Code::kFailedPrecondition, memory->viability.reason, memory->viability.detail,
          memory->viability.remedy};
}

void ProbeSlabs::Open(const std::string& caller, OpenProbeRequest request,
                      Reply<OpenProbeReply> reply) {
  if (Status wrong = Check(caller, request); !wrong.ok()) return reply(wrong);
  Result<Connections::Serving> serving = connections_.FindAccepted(caller, request.connection);
  if (!serving.ok()) return reply(serving.status());
  uint64_t number = os::RandomNumber();
  while (number == 0 || slabs_.contains(number)) ++number;
  Slab& slab = slabs_[number];
  slab.caller = caller;
  slab.serving = std::move(*serving);
  slab.activity = probes_.activities().Begin();
  slab.timer = context_.loop.RunAfter(kSlabLifetime, [this, number] {
    slabs_.at(number).timer = 0;
    CloseSlab(number);
  });
  if (context_.IsSelf(caller)) return Make(number, request, std::move(reply));
  probes_.EnsureOwn(slab.serving.link, {request.memory, request.device},
                    [this, number, request, reply = std::move(reply)](const Status& own) mutable {
                      if (Wanted(number) == nullptr) return reply(Gone());
                      if (own.ok()) return Make(number, request, std::move(reply));
                      Erase(number);
                      reply(own);
                    });
}

void ProbeSlabs::Make(uint64_t number, const OpenProbeRequest& request,
                      Reply<OpenProbeReply> reply) {
  const Place place{request.memory, request.device};
  Link* link = context_.FindLink(slabs_.at(number).serving.link);
  context_.workers.Run<RegionRef>(
      {WorkerOf(place), WholeNode(slabs_.at(number).caller)},
      [&context = context_, link, place, bytes = request.bytes,
       seed = request.seed]() -> Result<RegionRef> {
        ONECOPY_ASSIGN_OR_RETURN(const RegionRef region, AllocateAt(context, place, bytes));
        ONECOPY_RETURN_IF_ERROR(WritePattern(context, region, seed));
        ONECOPY_ASSIGN_OR_RETURN(const auto registered, link->Register(region));
        (void)registered;
        return region;
      },
      [this, number, reply = std::move(reply)](Result<RegionRef> region) mutable {
        if (Wanted(number) == nullptr) return reply(Gone());
        if (region.ok()) return Export(number, std::move(*region), std::move(reply));
        Erase(number);
        reply(region.status());
      });
}

void ProbeSlabs::Export(uint64_t number, RegionRef region, Reply<OpenProbeReply> reply) {
  Slab& slab = slabs_.at(number);
  slab.region = std::move(region);
  const Span span{slab.region, 0, slab.region->bytes()};
  slab.range = std::make_shared<ExportedRange>(context_, slab.serving.connection);
  slab.opening = std::make_unique<Reply<OpenProbeReply>>(std::move(reply));
  slab.range->Open(span, [this, number, bytes = span.bytes](Result<RemoteKey> key) {
    const auto reply = std::move(slabs_.at(number).opening);
    if (key.ok()) return (*reply)(OpenProbeReply{number, std::move(*key), bytes});
    Erase(number);
    (*reply)(key.status());
  });
}

ProbeSlabs::Slab* ProbeSlabs::Wanted(uint64_t number) {
  const auto found = slabs_.find(number);
  if (found == slabs_.end()) return nullptr;
  if (!found->second.unwanted) return &found->second;
  Erase(number);
  return nullptr;
}

void ProbeSlabs::Close(const std::string& caller, uint64_t probe, StatusReply reply) {
  const auto found = slabs_.find(probe);
  if (found == slabs_.end() || found->second.caller != caller) return reply(OkStatus());
  found->second.closing.push_back(std::move(reply));
  CloseSlab(probe);
}

void ProbeSlabs::CloseSlab(uint64_t number) {
  Slab& slab = slabs_.at(number);
  if (std::exchange(slab.unwanted, true) || slab.range == nullptr) return;
  const std::shared_ptr<ExportedRange> range = slab.range;
  if (const auto opening = std::move(slab.opening)) (*opening)(Gone());
  range->Close([this, number] { Erase(number); });
}

void ProbeSlabs::Erase(uint64_t number) {
  const auto found = slabs_.find(number);
  if (found == slabs_.end()) return;
  context_.loop.CancelTimer(found->second.timer);
  std::vector<StatusReply> closing = std::move(found->second.closing);
  slabs_.erase(found);
  for (StatusReply& reply : closing) reply(OkStatus());
}

void ProbeSlabs::DropPeer(const std::string& node) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, slab] : slabs_) {
    if (slab.caller == node) numbers.push_back(number);
  }
  for (const uint64_t number : numbers) CloseSlab(number);
}

void ProbeSlabs::CloseAll() {
  std::vector<uint64_t> numbers;
  for (const auto& [number, slab] : slabs_) numbers.push_back(number);
  for (const uint64_t number : numbers) CloseSlab(number);
}

}  // namespace onecopy::engine
