// An engine that answers, late, never, or after nobody listens any more.
#include "daemon/metrics/scrapes.h"

#include <boost/asio/executor_work_guard.hpp>
#include <optional>
#include <string>
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

struct Asking {
  boost::asio::io_context io;
  // Without it `io` would end when nothing is asked.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
  std::vector<Answer> open;
  std::optional<Scrapes> scrapes;
  std::vector<std::string> got;  // "": no answer in time

  explicit Asking(std::chrono::milliseconds patience) {
    scrapes.emplace(
        io, [this](Answer answer) { open.push_back(std::move(answer)); }, patience);
  }
  void Get() {
    scrapes->Get([this](const engine::Figures* figures) {
      got.push_back(figures == nullptr ? "" : figures->node);
    });
  }
  // Until there are so many answers.
  void Run(size_t answers) {
    while (got.size() < answers) io.run_one();
  }
};

}  // namespace

TEST_CASE("each question gets an answer that is as new as it is") {
  Asking asking(1min);
  for (const std::string node : {"1", "2"}) {
    asking.Get();
    asking.open.back()(Named(node));
    asking.Run(asking.got.size() + 1);
    CHECK(asking.got.back() == node);
  }
  CHECK(asking.open.size() == 2);
}

TEST_CASE("an engine that hangs is asked once, and answers all that wait when it goes on") {
  Asking asking(1ms);
  asking.Get();
  asking.Run(1);
  asking.Get();
  asking.Run(2);
  CHECK(asking.got == std::vector<std::string>{"", ""});
  REQUIRE(asking.open.size() == 1);
  Asking patient(1min);
  patient.Get();
  patient.Get();
  REQUIRE(patient.open.size() == 1);
  patient.open[0](Named("back"));
  patient.Run(2);
  CHECK(patient.got == std::vector<std::string>{"back", "back"});
  // The late answer of the first engine makes room for the next question.
  asking.open[0](Named("late"));
  asking.io.run_one();
  asking.Get();
  CHECK(asking.open.size() == 2);
}

TEST_CASE("an answer that comes when nobody is there any more is dropped") {
  Asking asking(1min);
  asking.Get();
  asking.scrapes.reset();
  asking.open[0](Named("late"));
  asking.io.poll();
  CHECK(asking.got.empty());
}
