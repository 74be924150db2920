#include "daemon/log/queued_output.h"
#include "transport/core/base/mutex.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "daemon/log/text_output.h"
#include "tests/support/catch.h"

namespace onecopy {
namespace {

using log::Level;

constexpr std::chrono::minutes kPatience{1};
constexpr std::chrono::milliseconds kNone{0};

// Writes nothing before it is let.
class Stuck final : public log::Output {
 public:
  void Write(const log::Record& record) override {
    const MutexLock lock(mutex_);
    while (!free_) let_.Wait(mutex_);
    lines_.push_back(std::string(log::LevelName(record.level)) + " " + log::TextOf(record));
  }

  void Release() {
    const MutexLock lock(mutex_);
    free_ = true;
    let_.NotifyAll();
  }

  std::vector<std::string> Lines() {
    const MutexLock lock(mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  Condition let_;
  bool free_ ONECOPY_GUARDED_BY(mutex_) = false;
  std::vector<std::string> lines_ ONECOPY_GUARDED_BY(mutex_);
};

struct Queued {
  explicit Queued(size_t most_bytes = log::QueuedOutput::kMaxBytes) {
    auto started = log::QueuedOutput::Start(stuck, most_bytes);
    REQUIRE_OK(started);
    output = *started;
  }
  ~Queued() { stuck->Release(); }

  void Write(Level level, std::string_view message, std::initializer_list<log::Field> fields = {}) {
    output->Write({level, message, {fields.begin(), fields.size()}});
  }

  std::shared_ptr<Stuck> stuck = std::make_shared<Stuck>();
  std::shared_ptr<log::QueuedOutput> output;
};

}  // namespace

TEST_CASE("a long text does not keep its record from being written") {
  Queued queued;
  const std::string text = std::string(15'000'000, 'y');
  queued.Write(Level::kInfo, "transfer ended", {{"outcome", text}, {"transfer", "1a"}});
  for (int i = 0; i < 1000; ++i) queued.Write(Level::kInfo, "next", {{"outcome", text}});
  queued.stuck->Release();
  REQUIRE(queued.output->Flush(kPatience));
  CHECK(queued.output->dropped() == 0);
  const std::vector<std::string> lines = queued.stuck->Lines();
  REQUIRE(lines.size() == 1001);
  INFO(lines[0].substr(0, 200));
  CHECK(lines[0].size() < 1200);
  CHECK(lines[0].starts_with("info transfer ended outcome=\"yyy"));
  CHECK(lines[0].find("y…[15000000 bytes]\"") != std::string::npos);
  CHECK(lines[0].ends_with(" transfer=1a"));
}

TEST_CASE("records that waited for their output say what they said, in order") {
  Queued queued;
  {
    std::string text = "may be gone by then";
    queued.Write(Level::kInfo, "first", {{"text", text}, {"number", -7}, {"rate", 2.5}});
    text.assign(text.size(), 'x');
    queued.Write(Level::kWarning, "second", {{"truth", true}, {"size", uint64_t{1} << 63}});
  }
  CHECK_FALSE(queued.output->Flush(kNone));
  queued.stuck->Release();
  CHECK(queued.output->Flush(kPatience));
  CHECK(queued.stuck->Lines() ==
        std::vector<std::string>{"info first text=\"may be gone by then\" number=-7 rate=2.5",
                                 "warning second truth=true size=9223372036854775808"});
  CHECK(queued.output->dropped() == 0);
}

TEST_CASE("a record keeps the time at which it was made") {
  class Times final : public log::Output {
   public:
    void Write(const log::Record& record) override { time = record.time; }
    std::chrono::system_clock::time_point time;
  };
  const auto times = std::make_shared<Times>();
  const auto queued = log::QueuedOutput::Start(times);
  REQUIRE_OK(queued);
  const std::chrono::system_clock::time_point made{std::chrono::hours(24)};
  (*queued)->Write({Level::kInfo, "m", {}, made});
  REQUIRE((*queued)->Flush(kPatience));
  CHECK(times->time == made);
}

TEST_CASE("what finds no room is dropped, counted, and told once the output moves again") {
  Queued queued(64 * 1024);
  constexpr uint64_t kRecords = 10'000;
  for (uint64_t i = 0; i < kRecords; ++i) queued.Write(Level::kInfo, "record");
  const uint64_t dropped = queued.output->dropped();
  CHECK(dropped > kRecords / 2);
  CHECK(dropped < kRecords);
  queued.stuck->Release();
  REQUIRE(queued.output->Flush(kPatience));
  const std::vector<std::string> lines = queued.stuck->Lines();
  uint64_t told = 0;
  uint64_t written = 0;
  for (const std::string& line : lines) {
    const size_t at = line.find(" records=");
    if (at != std::string::npos) told += std::stoull(line.substr(at + 9));
    written += line == "info record" ? 1 : 0;
  }
  CHECK(told == dropped);
  CHECK(written == kRecords - dropped);
  CHECK(lines.front() == "info record");
  CHECK(lines.back().find("warning records were dropped here") == 0);

  queued.Write(Level::kInfo, "afterwards");
  REQUIRE(queued.output->Flush(kPatience));
  CHECK(queued.stuck->Lines().back() == "info afterwards");
}

TEST_CASE("a flood of what is usual leaves room for warnings and errors") {
  Queued queued(64 * 1024);
  for (int i = 0; i < 10'000; ++i) queued.Write(Level::kInfo, "flood");
  const uint64_t dropped = queued.output->dropped();
  queued.Write(Level::kWarning, "matters");
  queued.Write(Level::kError, "matters more");
  CHECK(queued.output->dropped() == dropped);
  queued.stuck->Release();
  REQUIRE(queued.output->Flush(kPatience));
  const std::vector<std::string> lines = queued.stuck->Lines();
  CHECK(std::count(lines.begin(), lines.end(), "warning matters") == 1);
  CHECK(std::count(lines.begin(), lines.end(), "error matters more") == 1);
}

TEST_CASE("a queue may go while its output is stuck") {
  auto stuck = std::make_shared<Stuck>();
  {
    auto started = log::QueuedOutput::Start(stuck);
    REQUIRE_OK(started);
    (*started)->Write({Level::kInfo, "left behind", {}});
  }
  stuck->Release();
  while (stuck->Lines().empty()) std::this_thread::yield();
  CHECK(stuck->Lines() == std::vector<std::string>{"info left behind"});
}

}  // namespace onecopy
