// How often the engine is asked for what the status page shows.
#include "daemon/metrics/statuses.h"

#include <boost/asio/executor_work_guard.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::metrics;
using namespace std::chrono_literals;

namespace {

using Answer = UniqueFunction<void(engine::Figures)>;

struct AskingStatuses {
  boost::asio::io_context io;
  // Without it `io` would end when nothing is asked.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
  std::vector<Answer> open;
  Scrapes scrapes{io, [this](Answer answer) { open.push_back(std::move(answer)); }, 1min};
  Statuses::Clock::time_point now;
  Statuses statuses{scrapes, [this] { return now; }};
  std::vector<std::string> got;

  void Get() {
    statuses.Get([this](const std::string& document) { got.push_back(document); });
  }
  void AnswerAs(const std::string& node) {
    engine::Figures figures;
    figures.node = node;
    figures.status.emplace();
    Answer answer = std::move(open.back());
    const size_t before = got.size();
    answer(std::move(figures));
    while (got.size() == before) io.run_one();
    io.poll();
  }
};

}  // namespace

TEST_CASE("within a second everybody gets the same document, and the engine is asked once") {
  AskingStatuses asking;
  asking.Get();
  asking.Get();
  asking.AnswerAs("east");
  REQUIRE(asking.got.size() == 2);
  CHECK(asking.got[0] == asking.got[1]);
  CHECK(asking.got[0].find("\"node\":\"east\"") != std::string::npos);
  asking.now += 999ms;
  for (int i = 0; i < 100; ++i) asking.Get();
  CHECK(asking.got.size() == 102);
  CHECK(asking.got.back() == asking.got.front());
  CHECK(asking.open.size() == 1);
  asking.now += 1ms;
  asking.Get();
  CHECK(asking.open.size() == 2);
  asking.AnswerAs("west");
  CHECK(asking.got.back().find("\"node\":\"west\"") != std::string::npos);
}
