#include "daemon/engine/rings/bounce.h"

#include <memory>
#include <utility>

namespace onecopy::engine {
namespace {

constexpr const char* kHost = "host";

}  // namespace

void MakeBounce(Context& context, const Owner& payer, Reply<RegionRef> reply) {
  Result<std::shared_ptr<Ledger::Charge>> charge =
      context.ledger.Share(Charged::kBounces, payer, false, kBounceBytes);
  if (!charge.ok()) return reply(charge.status());
  Memory* const memory = context.FindMemory(kHost);
  context.workers.Run<std::unique_ptr<Region>>(
      WorkQueue(kHost, payer),
      // Not as memory of slots, which takes whole huge pages.
      [memory] { return memory->Allocate({}, kBounceBytes); },
      [&workers = context.workers, charge = std::move(*charge),
       reply = std::move(reply)](Result<std::unique_ptr<Region>> made) mutable {
        if (!made.ok()) return reply(made.status().WithContext("the staging memory of a route"));
        (*made)->OnRelease([charge = std::move(charge)]() mutable { charge.reset(); });
        reply(workers.Share(kHost, std::move(*made)));
      });
}

}  // namespace onecopy::engine
