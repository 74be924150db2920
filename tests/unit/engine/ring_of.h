// A client's ring, and what it asks its node's engine for.
#pragma once

#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/engine_cluster.h"
#include "transport/ring/client_end.h"

namespace onecopy::testing {

using namespace engine;

class RingOf {
 public:
  RingOf(EngineNode& node, Principal who) : node_(node), who_(std::move(who)) {
    auto given = Ask<RingGiven>(
        [&](RingApi& rings, auto reply) { rings.OpenRing(who_.session, std::move(reply)); });
    REQUIRE_OK(given);
    prefix_ = given->prefix;
    auto end = ring::ClientEnd::Open(given->memory, std::move(given->socket));
    REQUIRE_OK(end);
    end_ = std::make_unique<ring::ClientEnd>(std::move(*end));
  }

  template <typename T, typename F>
  Result<T> Ask(F call) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    auto future = promise->get_future();
    node_.engine().loop().Post([this, call, promise]() mutable {
      call(node_.engine().rings(),
           Reply<T>([promise](Result<T> result) { promise->set_value(std::move(result)); }));
    });
    return future.get();
  }
  Result<RingRoute> OpenRoute(const std::string& source, const std::string& destination) {
    return Ask<RingRoute>([&](RingApi& rings, auto reply) {
      rings.OpenRoute(who_.session, ParseEnd(source), ParseEnd(destination), std::move(reply));
    });
  }
  ring::Ended Move(uint64_t word, uint64_t from, uint64_t to, uint64_t bytes, bool sum = false) {
    uint64_t number = 0;
    REQUIRE(end_->Submit(word, from, to, bytes, &number, sum));
    ring::Ended ended;
    while (!end_->Reap(&ended)) end_->Sleep(std::chrono::seconds(1));
    CHECK(ended.number == number);
    return ended;
  }
  TransferId IdOf(uint64_t number) const {
    char text[32];
    std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(number));
    return TransferId(prefix_ + "-" + text);
  }
  ring::ClientEnd& end() { return *end_; }

 private:
  EngineNode& node_;
  const Principal who_;
  std::string prefix_;
  std::unique_ptr<ring::ClientEnd> end_;
};

}  // namespace onecopy::testing
