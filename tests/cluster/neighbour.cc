// A user's program that keeps so many transfers of one size under way, and counts.
//
//   neighbour RUN_DIR FROM TO BYTES UNDER_WAY [by-call]
//
// FROM and TO are buffers that this user may use, as NODE:NAME or NAME, of 4 * BYTES or more (of
// BYTES, where one is under way). by-call: not by this client's ring. It answers to lines on its
// standard input, with one line each:
//
//   begin     begins; answers when each of the transfers under way has ended once
//   count     how many bytes transfers that have ended moved so far
//   times N   waits for the next N ends of the first of those under way, and says how long these
//             transfers took in microseconds, as "P50 P99"
//
// It ends with its input, or, with status 1, when a transfer fails.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "onecopy/client.h"

namespace {

constexpr uint64_t kRanges = 4;

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "neighbour: " << what << std::endl;
  std::_Exit(1);
}

onecopy::Endpoint End(const std::string& text, uint64_t offset, uint64_t bytes) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {"", text, offset, bytes};
  return {text.substr(0, colon), text.substr(colon + 1), offset, bytes};
}

class Mover {
 public:
  Mover(onecopy::Client& client, std::string from, std::string to, uint64_t bytes, int under_way,
        bool by_call)
      : client_(client),
        from_(std::move(from)),
        to_(std::move(to)),
        bytes_(bytes),
        by_call_(by_call) {
    for (int i = 0; i < under_way; ++i) times_.emplace_back();
  }
  void Begin() {
    for (size_t i = 0; i < times_.size(); ++i) {
      threads_.emplace_back([this, i, one = times_.size() == 1] { Run(i, one); });
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] {
      return std::all_of(times_.begin(), times_.end(), [](const auto& of) { return !of.empty(); });
    });
  }
  uint64_t moved() const { return moved_; }
  std::vector<double> Times(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    times_[0].clear();
    changed_.wait(lock, [&] { return times_[0].size() >= count; });
    return {times_[0].begin(), times_[0].begin() + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  [[noreturn]] void Run(size_t index, bool one) {
    const uint64_t at = one ? 0 : index % kRanges * bytes_;
    onecopy::TransferRequest request{.source = End(from_, at, bytes_),
                                     .destination = End(to_, at, bytes_)};
    const std::string here = std::to_string(::getpid()) + "-" + std::to_string(index) + "-";
    for (uint64_t number = 0;; ++number) {
      // Rings carry no request ids.
      if (by_call_) request.request_id = here + std::to_string(number);
      const auto began = std::chrono::steady_clock::now();
      const auto done = client_.RunTransfer(request);
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - began;
      if (!done.ok()) Fail(done.status().ToString());
      if (done->state != onecopy::TransferState::kSucceeded) Fail(done->error.ToString());
      moved_ += bytes_;
      const std::lock_guard<std::mutex> lock(mutex_);
      times_[index].push_back(took.count());
      changed_.notify_all();
    }
  }

  onecopy::Client& client_;
  const std::string from_;
  const std::string to_;
  const uint64_t bytes_;
  const bool by_call_;
  std::atomic<uint64_t> moved_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<double>> times_;  // by what is under way
  std::vector<std::thread> threads_;        // the process ends them
};

}  // namespace

int main(int count, char** arguments) {
  const bool by_call = count == 7 && std::string(arguments[6]) == "by-call";
  if (count != 6 && !by_call) Fail("RUN_DIR FROM TO BYTES UNDER_WAY [by-call]");
  auto client = onecopy::Client::Connect({.run_dir = arguments[1], .program = "neighbour"});
  if (!client.ok()) Fail(client.status().ToString());
  Mover mover(*client, arguments[2], arguments[3], std::strtoull(arguments[4], nullptr, 10),
              std::atoi(arguments[5]), by_call);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "begin") {
      mover.Begin();
      std::cout << "begun" << std::endl;
    } else if (word == "count") {
      std::cout << mover.moved() << std::endl;
    } else if (size_t many = 0; word == "times" && words >> many && many > 0) {
      std::vector<double> times = mover.Times(many);
      std::sort(times.begin(), times.end());
      std::cout << times[many / 2] << " " << times[many * 99 / 100] << std::endl;
    } else {
      Fail("what is \"" + line + "\"?");
    }
  }
  std::_Exit(0);
}
