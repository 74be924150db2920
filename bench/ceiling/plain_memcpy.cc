#include "bench/ceiling/plain_memcpy.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "bench/ceiling/together.h"
#include "bench/measure/payload.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kWorthThreads = uint64_t{256} << 10;  // waking them takes longer for less

constexpr uint64_t kPage = 4096;

}  // namespace

Result<std::unique_ptr<Mover>> PlainMemcpy::Create(uint64_t bytes, unsigned threads, bool touched) {
  std::unique_ptr<PlainMemcpy> copy(new PlainMemcpy(threads, touched));
  ONECOPY_ASSIGN_OR_RETURN(copy->source_, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(copy->destination_, os::MapAnonymous(bytes));
  std::memset(copy->destination_.data(), 0, bytes);  // resident from here on
  return std::unique_ptr<Mover>(std::move(copy));
}

Status PlainMemcpy::Fill(uint64_t seed) {
  FillPayload(source_.data(), source_.bytes(), seed);
  if (!touched_) return OkStatus();
  // By the thread that will copy: others have filled the source.
  for (uint64_t at = 0; at < source_.bytes(); at += kPage) {
    static_cast<void>(*static_cast<volatile std::byte*>(source_.data() + at));
  }
  std::memset(destination_.data(), 0, destination_.bytes());
  return OkStatus();
}

Result<Moved> PlainMemcpy::Move() {
  if (threads_ == 1 || source_.bytes() < kWorthThreads) {
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(destination_.data(), source_.data(), source_.bytes());
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    return Moved{.seconds = time.count()};
  }
  std::vector<std::function<void()>> jobs;
  for (unsigned i = 0; i < threads_; ++i) {
    const Stripe stripe = StripeOf(source_.bytes(), threads_, i);
    jobs.emplace_back([this, stripe] {
      std::memcpy(destination_.data() + stripe.begin, source_.data() + stripe.begin,
                  stripe.bytes());
    });
  }
  return Moved{.seconds = SecondsTogether(jobs)};
}

Result<bool> PlainMemcpy::Verify(uint64_t seed) {
  return !FindWrong(destination_.data(), destination_.bytes(), seed);
}

}  // namespace onecopy::bench
