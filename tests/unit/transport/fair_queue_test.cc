#include "transport/core/fair_queue.h"

#include <map>
#include <string>

#include "tests/support/catch.h"

using onecopy::FairQueue;

TEST_CASE("one flow comes out in order") {
  FairQueue<int> queue(10);
  CHECK(queue.empty());
  for (int i = 0; i < 5; ++i) queue.Push(7, 3, i);
  CHECK(queue.size() == 5);
  for (int i = 0; i < 5; ++i) CHECK(queue.Pop() == i);
  CHECK(queue.empty());
}

TEST_CASE("what is pushed first comes out before its flow, and in the flow's turn") {
  FairQueue<int> queue(1);
  queue.Push(7, 1, 1);
  queue.Push(8, 1, 2);
  queue.PushFirst(7, 1, 3);
  queue.PushFirst(9, 1, 4);
  CHECK(queue.Pop() == 3);
  CHECK(queue.Pop() == 2);
  CHECK(queue.Pop() == 4);
  CHECK(queue.Pop() == 1);
  CHECK(queue.empty());
}

TEST_CASE("a small flow does not wait behind a large one") {
  FairQueue<std::string> queue(10);
  for (int i = 0; i < 1000; ++i) queue.Push(1, 10, "bulk");
  queue.Push(2, 1, "small");
  CHECK(queue.Pop() == "bulk");
  CHECK(queue.Pop() == "small");
}

TEST_CASE("flows have equal shares, whatever their items cost") {
  FairQueue<uint64_t> queue(100);
  for (int i = 0; i < 1000; ++i) {
    queue.Push(1, 1, 1);
    queue.Push(2, 100, 100);
    queue.Push(3, 350, 350);
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
  queue.Push(1, 1'000'000, 1);
  CHECK(queue.Pop() == 1);
  queue.Push(1, 50, 1);
  for (int i = 0; i < 100; ++i) queue.Push(2, 1, 2);
  int before = 0;
  while (queue.Pop() == 2) ++before;
  CHECK(before >= 49);
  CHECK(before <= 51);
}

TEST_CASE("what is taken out is not met again, and the rest keeps its order") {
  FairQueue<int> queue(1);
  for (int i = 0; i < 10; ++i) {
    queue.Push(1, 1, i);
    queue.Push(2, 1, 100 + i);
  }
  CHECK(queue.TakeFlow(1) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(queue.TakeFlow(1).empty());
  CHECK(queue.TakeFlow(3).empty());
  CHECK(queue.size() == 10);
  CHECK(queue.TakeIf([](int i) { return i % 2 == 1; }) ==
        std::vector<int>{101, 103, 105, 107, 109});
  CHECK(queue.Pop() == 100);
  queue.Push(1, 1, 5);
  CHECK(queue.TakeAll().size() == 5);
  CHECK(queue.empty());
  queue.Push(1, 1, 6);
  CHECK(queue.Pop() == 6);
}

TEST_CASE("a flow that is taken out in the middle of its turn leaves the turn to the next") {
  FairQueue<int> queue(2);
  for (int i = 0; i < 4; ++i) queue.Push(1, 1, i);
  for (int i = 0; i < 4; ++i) queue.Push(2, 1, 10 + i);
  CHECK(queue.Pop() == 0);
  CHECK(queue.TakeFlow(1).size() == 3);
  CHECK(queue.Pop() == 10);
  CHECK(queue.Pop() == 11);
}
