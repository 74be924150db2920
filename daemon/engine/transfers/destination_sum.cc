#include "daemon/engine/transfers/destination_sum.h"

#include <utility>

namespace onecopy::engine {

void DestinationSum::Start() {
  const auto& [span, layout] = destination_;
  checksums_.SumTree(span.region, {span.offset, span.bytes}, layout, stop_, payer_,
                     [self = shared_from_this()](Result<digest::TreeSum> sum) {
                       self->destination_.span.region.reset();
                       self->sum_ = std::move(sum);
                       if (self->then_) std::exchange(self->then_, nullptr)(*self->sum_);
                     });
}

void DestinationSum::WhenKnown(Reply<digest::TreeSum> then) {
  if (sum_) return then(*sum_);
  then_ = std::move(then);
}

}  // namespace onecopy::engine
