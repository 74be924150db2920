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

}  // namespace

Result<std::unique_ptr<Mover>> PlainMemcpy::Create(uint64_t bytes, unsigned threads) {
  std::unique_ptr<PlainMemcpy> copy(new PlainMemcpy(threads));
  ONECOPY_ASSIGN_OR_RETURN(copy->source_, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(copy->destination_, os::MapAnonymous(bytes));
  std::memset(copy->destination_.data(), 0, bytes);  // resident from here on
  return std::unique_ptr<Mover>(std::move(copy));
}

Status PlainMemcpy::Fill(uint64_t seed) {
  FillPayload(source_.data(), source_.bytes(), seed);
  return OkStatus();
}

Result<Moved> PlainMemcpy::Move() {
  if (source_.bytes() < kWorthThreads) {
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
