#include "daemon/engine/node_drain.h"

#include <chrono>
#include <string>
#include <utility>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

void NodeDrain::Set(bool draining, bool wait, Reply<uint64_t> reply) {
  const Context& context = needs_.context;
  if (context.ending) return reply(context.Draining());
  if (draining && !context.draining) Begin();
  if (!draining && context.draining) End();
  if (!draining || !wait) return reply(uint64_t{needs_.transfers.running()});
  waiting_.push_back(std::move(reply));
  needs_.transfers.OnIdle([this] { ReplyToAll(uint64_t{0}); });
}

void NodeDrain::Begin() {
  Context& context = needs_.context;
  context.draining = true;
  context.draining_since = std::chrono::system_clock::now();
  needs_.rings.Drain(true);
  // Routes of peers' rings would carry new transfers without asking.
  needs_.openings.CloseAll(context.Draining());
  needs_.peers.TellAll();
  log::Warning("this node drains: it takes no new transfers",
               {{"running", std::to_string(needs_.transfers.running())},
                {"try", "onecopy node undrain ends this"}});
}

void NodeDrain::End() {
  needs_.context.draining = false;
  needs_.rings.Drain(false);
  needs_.peers.TellAll();
  log::Info("this node takes transfers again");
  ReplyToAll(Status(Code::kAborted, reasons::kCancelled,
                    "the drain was ended by `onecopy node undrain` before every transfer had ended",
                    "run onecopy node drain again"));
}

void NodeDrain::ReplyToAll(const Result<uint64_t>& with) {
  for (Reply<uint64_t>& reply : std::exchange(waiting_, {})) reply(with);
}

}  // namespace onecopy::engine
