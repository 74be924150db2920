#include "bench/ceiling/event_ping_pong.h"

#include <utility>

#include "bench/ceiling/ping_pong.h"
#include "bench/ceiling/together.h"
#include "bench/measure/payload.h"

namespace onecopy::bench {

Result<std::unique_ptr<Mover>> EventPingPong::Create(const Many& many,
                                                     const std::optional<RingWay>& ring) {
  std::unique_ptr<EventPingPong> made(new EventPingPong(many, ring));
  ONECOPY_ASSIGN_OR_RETURN(made->source_, os::MapAnonymous(many.bytes()));
  ONECOPY_ASSIGN_OR_RETURN(made->destination_, os::MapAnonymous(many.bytes()));
  ONECOPY_ASSIGN_OR_RETURN(std::vector<SocketPair> pairs, ConnectOverLoopback(1, ring.has_value()));
  made->ends_ = std::move(pairs[0]);
  if (ring) {  // what the kernel refuses is known before the first sample
    ONECOPY_RETURN_IF_ERROR(
        MakeRingAnswerer(made->ends_.sender.get(), made->source_.data(), *ring).status());
  }
  return std::unique_ptr<Mover>(std::move(made));
}

Status EventPingPong::Fill(uint64_t seed) {
  FillPayload(source_.data(), source_.bytes(), seed);
  return OkStatus();
}

Result<Moved> EventPingPong::Move() {
  const int here = ends_.receiver.get();
  const int there = ends_.sender.get();
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Asker> asker,
                           ring_ ? MakeRingAsker(here, many_, destination_.data(), *ring_)
                                 : MakeEpollAsker(here, many_, destination_.data()));
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Answerer> answerer,
                           ring_ ? MakeRingAnswerer(there, source_.data(), *ring_)
                                 : MakeEpollAnswerer(there, source_.data()));
  Result<Moved> moved = Moved{};
  Status answered = OkStatus();
  const double cpu_before = ProcessCpuSeconds();
  SecondsTogether({[&] { answered = answerer->Answer(many_.count); },
                   [&] {
                     moved = many_.depth == 1
                                 ? OneByOne(many_, [&](uint64_t) { return asker->Move(1); })
                                 : AllAtOnce(many_, [&] { return asker->Move(many_.count); });
                   }});
  const double cpu_seconds = ProcessCpuSeconds() - cpu_before;
  ONECOPY_RETURN_IF_ERROR(answered);
  ONECOPY_RETURN_IF_ERROR(moved.status());
  moved->cpu_seconds = cpu_seconds / many_.count;
  moved->loopback = true;
  return moved;
}

Result<bool> EventPingPong::Verify(uint64_t seed) {
  return !FindWrong(destination_.data(), destination_.bytes(), seed);
}

}  // namespace onecopy::bench
