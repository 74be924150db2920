// An engine that answers, late, never, or after nobody listens any more.
#include "daemon/metrics/engine_figures.h"

#include <thread>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::metrics;
using namespace std::chrono_literals;

namespace {

using Answer = UniqueFunction<void(engine::Figures)>;

engine::Figures Named(const std::string& node) {
  engine::Figures figures;
  figures.node = node;
  return figures;
}

}  // namespace

TEST_CASE("each question gets an answer that is as new as it is") {
  int asked = 0;
  const EngineFigures figures([&](Answer answer) { answer(Named(std::to_string(++asked))); });
  CHECK(figures.Get(1min)->node == "1");
  CHECK(figures.Get(1min)->node == "2");
}

TEST_CASE("an engine that hangs is asked once, and answers whoever waits when it goes on") {
  std::vector<Answer> open;
  const EngineFigures figures([&](Answer answer) { open.push_back(std::move(answer)); });
  CHECK(figures.Get(1ms) == nullptr);
  CHECK(figures.Get(1ms) == nullptr);
  REQUIRE(open.size() == 1);
  std::shared_ptr<const engine::Figures> late;
  // Whether it waits already when the answer comes, or finds it open no more and asks anew.
  std::thread waits([&] { late = figures.Get(50ms); });
  open[0](Named("back"));
  waits.join();
  CHECK((late == nullptr || late->node == "back"));
  if (open.size() == 1) {
    CHECK(figures.Get(1ms) == nullptr);
    CHECK(open.size() == 2);
  }
}

TEST_CASE("an answer that comes when nobody is there any more is dropped") {
  std::vector<Answer> open;
  {
    const EngineFigures figures([&](Answer answer) { open.push_back(std::move(answer)); });
    CHECK(figures.Get(1ms) == nullptr);
  }
  open[0](Named("late"));
}
