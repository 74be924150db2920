#include "daemon/engine/base/routes.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

template <typename Route>
void PrepareBy(Context& context, const WorkQueue& queue, const RegionRef& from, const RegionRef& to,
               Result<std::unique_ptr<Route>> (Copier::*prepare)(const RegionRef&,
                                                                 const RegionRef&),
               Reply<std::shared_ptr<Route>> reply) {
  Copier* const copier = context.CopierFor(from->place(), to->place());
  if (copier == nullptr) return reply(NothingCopies(context, *from, *to));
  context.workers.Run<std::unique_ptr<Route>>(
      queue, [copier, prepare, from, to] { return (copier->*prepare)(from, to); },
      [&workers = context.workers, queue,
       reply = std::move(reply)](Result<std::unique_ptr<Route>> made) mutable {
        if (!made.ok()) return reply(made.status());
        reply(workers.ShareAny(queue, std::move(*made)));
      });
}

}  // namespace

Status NothingCopies(const Context& context, const Region& from, const Region& to) {
  return {Code::kFailedPrecondition, reasons::kNotApplicable,
          "nothing on node " + context.node() + " copies from " + from.step_name() + " to " +
              to.step_name()};
}

void PrepareRoute(Context& context, const WorkQueue& queue, const RegionRef& from,
                  const RegionRef& to, Reply<std::shared_ptr<CopyRoute>> reply) {
  PrepareBy<CopyRoute>(context, queue, from, to, &Copier::Prepare, std::move(reply));
}

void PrepareSmallCopyRoute(Context& context, const WorkQueue& queue, const RegionRef& from,
                           const RegionRef& to, Reply<std::shared_ptr<SmallCopyRoute>> reply) {
  PrepareBy<SmallCopyRoute>(context, queue, from, to, &Copier::PrepareSmall, std::move(reply));
}

void PrepareLongCopyRoute(Context& context, const WorkQueue& queue, const RegionRef& from,
                          const RegionRef& to, Reply<std::shared_ptr<SmallCopyRoute>> reply) {
  PrepareBy<SmallCopyRoute>(context, queue, from, to, &Copier::PrepareLong, std::move(reply));
}

}  // namespace onecopy::engine
