#include "bench/ceiling/thread_ping_pong.h"

#include <sched.h>

#include <cstring>

#include "bench/measure/payload.h"

namespace onecopy::bench {

Result<std::unique_ptr<Mover>> ThreadPingPong::Create(const Many& many) {
  std::unique_ptr<ThreadPingPong> made(new ThreadPingPong(many));
  ONECOPY_ASSIGN_OR_RETURN(made->source_, os::MapAnonymous(many.bytes()));
  ONECOPY_ASSIGN_OR_RETURN(made->destination_, os::MapAnonymous(many.bytes()));
  return std::unique_ptr<Mover>(std::move(made));
}

Status ThreadPingPong::Fill(uint64_t seed) {
  FillPayload(source_.data(), source_.bytes(), seed);
  return OkStatus();
}

void ThreadPingPong::Copy() {
  for (unsigned i = 0; i < many_.count;) {
    if (wanted_.load(std::memory_order_acquire) == i) {
      ::sched_yield();
      continue;
    }
    const uint64_t offset = many_.OffsetOf(i++);
    std::memcpy(destination_.data() + offset, source_.data() + offset, many_.piece_bytes);
    copied_.store(i, std::memory_order_release);
  }
}

void ThreadPingPong::AwaitCopied(uint64_t count) const {
  while (copied_.load(std::memory_order_acquire) < count) ::sched_yield();
}

Result<Moved> ThreadPingPong::Move() {
  wanted_ = 0;
  copied_ = 0;
  const std::jthread other([this] { Copy(); });
  if (many_.depth == 1) {
    return OneByOne(many_, [this](uint64_t) {
      const uint64_t next = wanted_.load(std::memory_order_relaxed) + 1;
      wanted_.store(next, std::memory_order_release);
      AwaitCopied(next);
      return OkStatus();
    });
  }
  return AllAtOnce(many_, [this] {
    for (uint64_t i = 1; i <= many_.count; ++i) {
      if (i > many_.depth) AwaitCopied(i - many_.depth);
      wanted_.store(i, std::memory_order_release);
    }
    AwaitCopied(many_.count);
    return OkStatus();
  });
}

Result<bool> ThreadPingPong::Verify(uint64_t seed) {
  return !FindWrong(destination_.data(), destination_.bytes(), seed);
}

}  // namespace onecopy::bench
