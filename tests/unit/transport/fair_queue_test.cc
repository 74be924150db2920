#include "transport/core/base/fair_queue.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

using onecopy::FairQueue;
using onecopy::Flow;
using onecopy::Priority;

namespace {

const Flow kOwn;

// How much of `total` each (node, user) is given whose items, of `cost` each, never run out.
std::map<std::pair<uint64_t, uint64_t>, uint64_t> Serve(
    const std::vector<std::pair<Flow, uint64_t>>& all, uint64_t total) {
  FairQueue<size_t> queue(64);
  for (size_t i = 0; i < all.size(); ++i) {
    for (int n = 0; n < 3; ++n) queue.Push(all[i].first, i, all[i].second, i);
  }
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> served;
  for (uint64_t given = 0; given < total;) {
    const size_t who = queue.Pop();
    const auto& [flow, cost] = all[who];
    served[{flow.node, flow.user}] += cost;
    given += cost;
    queue.Push(flow, who, cost, who);
  }
  return served;
}

}  // namespace

TEST_CASE("one channel comes out in order") {
  FairQueue<int> queue(10);
  CHECK(queue.empty());
  for (int i = 0; i < 5; ++i) queue.Push(kOwn, 7, 3, i);
  CHECK(queue.size() == 5);
  for (int i = 0; i < 5; ++i) CHECK(queue.Pop() == i);
  CHECK(queue.empty());
}

TEST_CASE("what is pushed first comes out before its channel, and in the channel's turn") {
  FairQueue<int> queue(1);
  queue.Push(kOwn, 7, 1, 1);
  queue.Push(kOwn, 8, 1, 2);
  queue.PushFirst(kOwn, 7, 1, 3);
  queue.PushFirst(kOwn, 9, 1, 4);
  CHECK(queue.Pop() == 3);
  CHECK(queue.Pop() == 2);
  CHECK(queue.Pop() == 4);
  CHECK(queue.Pop() == 1);
  CHECK(queue.empty());
}

TEST_CASE("a small channel does not wait behind a large one") {
  FairQueue<std::string> queue(10);
  for (int i = 0; i < 1000; ++i) queue.Push(kOwn, 1, 10, "bulk");
  queue.Push(kOwn, 2, 1, "small");
  CHECK(queue.Pop() == "bulk");
  CHECK(queue.Pop() == "small");
}

TEST_CASE("channels have equal shares, whatever their items cost") {
  FairQueue<uint64_t> queue(100);
  for (int i = 0; i < 1000; ++i) {
    queue.Push(kOwn, 1, 1, 1);
    queue.Push(kOwn, 2, 100, 100);
    queue.Push(kOwn, 3, 350, 350);
  }
  std::map<uint64_t, uint64_t> served;
  for (uint64_t all = 0; all < 9000;) {
    const uint64_t cost = queue.Pop();
    served[cost] += cost;
    all += cost;
    if (served[1] == 1000) break;  // of which there are no more
  }
  CHECK(served[1] == 1000);
  CHECK(served[100] >= 900);
  CHECK(served[100] <= 1100);
  CHECK(served[350] >= 700);
  CHECK(served[350] <= 1400);
}

TEST_CASE("an item that costs far more than a turn comes in its time") {
  FairQueue<int> queue(1);
  queue.Push(kOwn, 1, 1'000'000, 1);
  CHECK(queue.Pop() == 1);
  queue.Push(kOwn, 1, 50, 1);
  for (int i = 0; i < 100; ++i) queue.Push(kOwn, 2, 1, 2);
  int before = 0;
  while (queue.Pop() == 2) ++before;
  CHECK(before >= 49);
  CHECK(before <= 51);
}

TEST_CASE("what is taken out is not met again, and the rest keeps its order") {
  FairQueue<int> queue(1);
  for (int i = 0; i < 10; ++i) {
    queue.Push(kOwn, 1, 1, i);
    queue.Push(kOwn, 2, 1, 100 + i);
  }
  CHECK(queue.TakeChannel(1) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(queue.TakeChannel(1).empty());
  CHECK(queue.TakeChannel(3).empty());
  CHECK(queue.size() == 10);
  CHECK(queue.TakeIf([](int i) { return i % 2 == 1; }) ==
        std::vector<int>{101, 103, 105, 107, 109});
  CHECK(queue.Pop() == 100);
  queue.Push(kOwn, 1, 1, 5);
  CHECK(queue.TakeAll().size() == 5);
  CHECK(queue.empty());
  queue.Push(kOwn, 1, 1, 6);
  CHECK(queue.Pop() == 6);
}

TEST_CASE("a channel that is taken out in the middle of its turn leaves the turn to the next") {
  FairQueue<int> queue(2);
  for (int i = 0; i < 4; ++i) queue.Push(kOwn, 1, 1, i);
  for (int i = 0; i < 4; ++i) queue.Push(kOwn, 2, 1, 10 + i);
  CHECK(queue.Pop() == 0);
  CHECK(queue.TakeChannel(1).size() == 3);
  CHECK(queue.Pop() == 10);
  CHECK(queue.Pop() == 11);
}

TEST_CASE("users of a node have equal shares, however many channels each has") {
  std::vector<std::pair<Flow, uint64_t>> all;
  for (int i = 0; i < 64; ++i) all.push_back({{.node = 1, .user = 1}, 32});
  all.push_back({{.node = 1, .user = 2}, 1});
  auto served = Serve(all, 100'000);
  CHECK(served[{1, 1}] >= 49'000);
  CHECK(served[{1, 2}] >= 49'000);
}

TEST_CASE("nodes have equal shares, however many users ask at each") {
  std::vector<std::pair<Flow, uint64_t>> all;
  for (uint64_t user = 0; user < 8; ++user) all.push_back({{.node = 1, .user = user}, 16});
  all.push_back({{.node = 2, .user = 3}, 16});
  auto served = Serve(all, 160'000);
  CHECK(served[{2, 3}] >= 79'000);
  CHECK(served[{2, 3}] <= 81'000);
  for (uint64_t user = 0; user < 8; ++user) CHECK(served[{1, user}] >= 9'800);
}

TEST_CASE("weights give their shares, of nodes and of users, whatever items cost") {
  auto served = Serve({{{.node = 1, .user = 1, .node_weight = 2, .user_weight = 3}, 100},
                       {{.node = 1, .user = 2, .node_weight = 2, .user_weight = 1}, 7},
                       {{.node = 2, .user = 1, .user_weight = 9}, 33}},
                      120'000);
  CHECK(served[{1, 1}] >= 58'800);
  CHECK(served[{1, 1}] <= 61'200);
  CHECK(served[{1, 2}] >= 19'600);
  CHECK(served[{1, 2}] <= 20'400);
  CHECK(served[{2, 1}] >= 39'200);
  CHECK(served[{2, 1}] <= 40'800);
}

TEST_CASE("a weight that changes holds for what waits already") {
  FairQueue<int> queue(1);
  for (int i = 0; i < 100; ++i) {
    queue.Push({.user = 1}, 1, 1, 1);
    queue.Push({.user = 2}, 2, 1, 2);
  }
  queue.Push({.user = 2, .user_weight = 4}, 2, 1, 2);
  int of_second = 0;
  for (int i = 0; i < 50; ++i) of_second += queue.Pop() == 2 ? 1 : 0;
  CHECK(of_second >= 39);
  CHECK(of_second <= 41);
  queue.Push({.user = 2, .user_weight = 0}, 2, 1, 2);  // counts as 1
  of_second = 0;
  for (int i = 0; i < 50; ++i) of_second += queue.Pop() == 2 ? 1 : 0;
  CHECK(of_second >= 24);
  CHECK(of_second <= 27);
  // What began before a reload does not take it back.
  queue.Push({.user = 2, .user_weight = 4, .generation = 1}, 2, 1, 2);
  queue.Push({.user = 2, .user_weight = 1}, 3, 1, 2);
  for (int i = 0; i < 50; ++i) queue.Push({.user = 2}, 4, 1, 2);
  of_second = 0;
  for (int i = 0; i < 25; ++i) of_second += queue.Pop() == 2 ? 1 : 0;
  CHECK(of_second >= 19);
  CHECK(of_second <= 21);
}

TEST_CASE("an owner who has one item at a time gets no more than its share") {
  FairQueue<int> queue(10);
  const Flow large{.user = 1};
  const Flow small{.user = 2};
  queue.Push(large, 1, 100, 1);
  for (int i = 0; i < 3; ++i) queue.Push(small, 2, 10, 2);
  int64_t ahead = 0;  // the large ones' bytes over the small ones'
  for (int i = 0; i < 1000; ++i) {
    const bool is_large = queue.Pop() == 1;
    ahead += is_large ? 100 : -10;
    CHECK(ahead <= 200);
    queue.Push(is_large ? large : small, is_large ? 1 : 2, is_large ? 100 : 10, is_large ? 1 : 2);
  }
  CHECK(ahead >= -200);
}

TEST_CASE("a channel is taken out of whatever flows it is in") {
  FairQueue<int> queue(1);
  queue.Push({.node = 1, .user = 1}, 7, 1, 1);
  queue.Push({.node = 1, .user = 2}, 7, 1, 2);
  queue.Push({.node = 2, .user = 1}, 7, 1, 3);
  queue.Push({.node = 2, .user = 1}, 8, 1, 4);
  std::vector<int> taken = queue.TakeChannel(7);
  std::sort(taken.begin(), taken.end());
  CHECK(taken == std::vector<int>{1, 2, 3});
  CHECK(queue.size() == 1);
  CHECK(queue.Pop() == 4);
  CHECK(queue.empty());
}

TEST_CASE("a flow counts what waits until it is served or taken out") {
  FairQueue<int> queue(1);
  Flow watched{.user = 1};
  watched.waiting = std::make_shared<std::atomic<int64_t>>(0);
  for (int i = 0; i < 4; ++i) queue.Push(watched, 1, 1, i);
  queue.PushFirst(watched, 2, 1, 4);
  queue.Push({.user = 2}, 3, 1, 9);
  CHECK(*watched.waiting == 5);
  while (queue.Pop() == 9) {
  }
  CHECK(*watched.waiting == 4);
  (void)queue.TakeIf([](int i) { return i == 4 || i == 3; });
  CHECK(*watched.waiting <= 3);
  (void)queue.TakeAll();
  CHECK(*watched.waiting == 0);
  queue.Push(watched, 1, 1, 0);
  { const FairQueue<int> gone(std::move(queue)); }
  CHECK(*watched.waiting == 0);
}

TEST_CASE("an item that costs anything at all is served without a round for each turn") {
  FairQueue<int> queue(1);
  for (int channel = 0; channel < 100; ++channel) {
    queue.Push({.user = static_cast<uint64_t>(channel % 3), .user_weight = 1 + channel % 2u},
               static_cast<uint64_t>(channel), uint64_t{1} << 60, channel);
  }
  queue.Push({.user = 9}, 1000, UINT64_MAX, 1000);
  queue.Push({.user = 8}, 1001, 5, 1001);
  CHECK(queue.Pop() == 1001);
  for (int i = 0; i < 101; ++i) (void)queue.Pop();
  CHECK(queue.empty());
}

TEST_CASE("a higher priority goes before all others whatever their weights") {
  FairQueue<int> queue(1);
  const Flow low{.user = 1, .user_weight = 100, .priority = Priority::kLow};
  const Flow normal{.user = 2};
  const Flow high{.node = 7, .user = 3, .priority = Priority::kHigh};
  for (int i = 0; i < 2; ++i) {
    queue.Push(low, 1, 1, 10 + i);
    queue.Push(normal, 2, 1, 20 + i);
    queue.Push(high, 3, 1, 30 + i);
  }
  for (const int next : {30, 31, 20, 21, 10}) CHECK(queue.Pop() == next);
  queue.Push(high, 3, 1, 32);
  CHECK(queue.Pop() == 32);
  CHECK(queue.Pop() == 11);
  CHECK(queue.empty());
}

TEST_CASE("a lower priority has its turn once 64 times as much has gone before it") {
  FairQueue<int> queue(1);
  const Flow low{.user = 1, .priority = Priority::kLow};
  const Flow normal{.user = 2};
  const Flow high{.user = 3, .priority = Priority::kHigh};
  std::map<int, int> served;
  for (int i = 0; i < 6400; ++i) {
    if (queue.size() < 3) {
      queue.Push(high, 3, 1, 3);
      queue.Push(high, 3, 1, 3);
    }
    if (i == 0) {
      for (int n = 0; n < 300; ++n) {
        queue.Push(low, 1, 2, 1);
        queue.Push(normal, 2, 1, 2);
      }
    }
    const int next = queue.Pop();
    ++served[next];
    if (next == 3) queue.Push(high, 3, 1, 3);
  }
  CHECK(served[2] >= 95);
  CHECK(served[2] <= 100);
  CHECK(served[1] >= 47);
  CHECK(served[1] <= 50);
}

TEST_CASE("a user's own priorities order what is the user's and take nothing from others") {
  FairQueue<int> queue(1);
  const Flow greedy{.user = 1, .own_priority = Priority::kHigh};
  const Flow later{.user = 1, .own_priority = Priority::kLow};
  for (int i = 0; i < 3; ++i) {
    queue.Push(later, 1, 1, 10 + i);
    queue.Push(greedy, 2, 1, 20 + i);
    queue.Push({.user = 2}, 3, 1, 30 + i);
  }
  std::map<int, std::vector<int>> by_user;
  std::vector<int> first_four;
  while (!queue.empty()) {
    const int next = queue.Pop();
    by_user[next / 30].push_back(next);
    if (first_four.size() < 4) first_four.push_back(next / 30);
  }
  CHECK(by_user[0] == std::vector<int>{20, 21, 22, 10, 11, 12});
  CHECK(by_user[1] == std::vector<int>{30, 31, 32});
  CHECK(std::count(first_four.begin(), first_four.end(), 1) == 2);
}

TEST_CASE("what is taken out is found under every priority") {
  FairQueue<int> queue(1);
  for (int i = 0; i < 3; ++i) {
    for (int own = 0; own < 3; ++own) {
      queue.Push({.priority = static_cast<Priority>(i), .own_priority = static_cast<Priority>(own)},
                 5, 1, i * 3 + own);
    }
  }
  CHECK(queue.TakeIf([](int item) { return item % 2 == 0; }).size() == 5);
  CHECK(queue.TakeChannel(5).size() == 4);
  CHECK(queue.empty());
}
