// Small copies inside a node, with checksums of both ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "daemon/pipeline/small_sums.h"
#include "daemon/pipeline/summed_end.h"

namespace onecopy::pipeline {

// Adds checksums to a route between two memories that SummedEnd works with. SumOf computes both, on
// the thread that asks.
class SummedRoute final : public SmallCopyRoute {
 public:
  // `route` copies from `from` to `to`, at most digest::kLeafBytes at a time.
  SummedRoute(std::shared_ptr<SmallCopyRoute> route, RegionRef from, RegionRef to)
      : route_(std::move(route)), from_(std::move(from), 0), to_(std::move(to), 0) {}

  void SetTransfer(uint64_t number) override { route_->SetTransfer(number); }
  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override {
    return route_->Begin(from_offset, to_offset, bytes);
  }
  uint64_t most_list_bytes() const override { return route_->most_list_bytes(); }
  Status BeginMany(std::span<const CopyPiece> pieces, uint64_t bytes) override {
    return route_->BeginMany(pieces, bytes);
  }
  bool sums() const override { return true; }
  Status BeginSummed(uint64_t from_offset, uint64_t to_offset, uint64_t bytes,
                     uint64_t* copy) override;
  Result<SmallSum> SumOf(uint64_t copy) override;
  uint64_t Mark() override { return route_->Mark(); }
  bool Reached(uint64_t mark, Status* failure) override { return route_->Reached(mark, failure); }
  void Cancel() override { route_->Cancel(); }
  std::shared_ptr<const SmallSteps> steps() const override { return route_->steps(); }
  std::shared_ptr<const SmallSteps> list_steps() const override { return route_->list_steps(); }

 private:
  struct Place {
    uint64_t from = 0;
    uint64_t to = 0;
    uint64_t bytes = 0;
  };

  const std::shared_ptr<SmallCopyRoute> route_;
  const SummedEnd from_;
  const SummedEnd to_;
  ByCopy<Place> places_;
  uint64_t begun_ = 0;  // of those with sums
};

}  // namespace onecopy::pipeline
