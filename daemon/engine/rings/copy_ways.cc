#include "daemon/engine/rings/copy_ways.h"

#include <string>
#include <utility>

#include "daemon/engine/base/routes.h"
#include "daemon/log/log.h"

namespace onecopy::engine {
namespace {

// The way goes before what it reads, and that on the engine's thread.
std::shared_ptr<SmallCopyRoute> Holding(os::EventLoop& loop,
                                        const std::shared_ptr<BorrowedRange>& borrowed,
                                        std::shared_ptr<SmallCopyRoute> way) {
  if (borrowed == nullptr) return way;
  SmallCopyRoute* const used = way.get();
  return {used, [&loop, held = borrowed, way = std::move(way)](void*) mutable {
            way.reset();
            loop.Post([held = std::move(held)] {});
          }};
}

void LogNoLongWay(const CopyWaysParams& params, const std::string& why) {
  log::Debug("no long transfers by this route of a ring",
             {{"from", params.from->step_name()}, {"to", params.to->step_name()}, {"why", why}});
}

}  // namespace

void PrepareCopyWays(Context& context, CopyWaysParams params, Reply<CopyWays> reply) {
  const RegionRef from = params.from;
  const RegionRef to = params.to;
  const WorkQueue queue(WorkerOf(from->place(), to->place()), params.owner);
  PrepareSmallCopyRoute(
      context, queue, from, to,
      [&context, queue, params = std::move(params),
       reply = std::move(reply)](Result<std::shared_ptr<SmallCopyRoute>> way) mutable {
        if (!way.ok()) return reply(way.status());
        CopyWays ways{Holding(context.loop, params.borrowed, std::move(*way)), nullptr};
        if (!params.long_too) {
          LogNoLongWay(params, "they take another path");
          return reply(std::move(ways));
        }
        const RegionRef from = params.from;
        const RegionRef to = params.to;
        PrepareLongCopyRoute(
            context, queue, from, to,
            [&context, params = std::move(params), ways = std::move(ways),
             reply = std::move(reply)](Result<std::shared_ptr<SmallCopyRoute>> way) mutable {
              // Whatever is in their way, the short ones go.
              if (way.ok()) {
                ways.long_way = Holding(context.loop, params.borrowed, std::move(*way));
              } else {
                LogNoLongWay(params, way.status().ToString());
              }
              reply(std::move(ways));
            });
      });
}

}  // namespace onecopy::engine
