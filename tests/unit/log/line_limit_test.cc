#include "daemon/log/line_limit.h"

#include "tests/support/catch.h"

namespace onecopy::log {

TEST_CASE("so many lines a second are written, and the others counted") {
  LineLimit lines(3);
  const LineLimit::Clock::time_point begin = LineLimit::Clock::now();
  const auto written = [&](int tries, std::chrono::milliseconds at) {
    int taken = 0;
    for (int i = 0; i < tries; ++i) taken += lines.Take(begin + at) ? 1 : 0;
    return taken;
  };
  using std::chrono::milliseconds;
  CHECK(written(2, milliseconds(0)) == 2);
  CHECK(lines.TakeLeftOut() == 0);
  CHECK(written(5, milliseconds(999)) == 1);
  CHECK(lines.TakeLeftOut() == 4);
  CHECK(lines.TakeLeftOut() == 0);
  CHECK(written(4, milliseconds(1000)) == 3);
  CHECK(written(4, milliseconds(9000)) == 3);
  CHECK(lines.TakeLeftOut() == 2);
}

}  // namespace onecopy::log
