// Batches of a library that does what a test says: each piece ends once, and as it was told.
#include "transport/store/cufile/batches.h"

#include <cerrno>
#include <deque>

#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::cufile;
using namespace onecopy::shim::cufile;

namespace {

// What the library does, as plain functions can tell it: one batch at a time.
struct Script {
  std::deque<BatchEvent> events;  // that are told, in turn, a call's worth each
  int submit = 0;
  int status = 0;
  bool on_cancel_tell = false;
  unsigned set_up = 0, destroyed = 0, cancelled = 0, asked = 0;
  std::vector<BatchEntry> entries;
};
Script* script = nullptr;

std::shared_ptr<const shim::CuFileApi> Library(Script& says) {
  script = &says;
  auto api = std::make_shared<shim::CuFileApi>();
  api->SetUpBatch = [](BatchHandle* handle, unsigned) {
    ++script->set_up;
    *handle = script;
    return Error{};
  };
  api->SubmitBatch = [](BatchHandle, unsigned entries, BatchEntry* all, unsigned) {
    script->entries.assign(all, all + entries);
    return Error{script->submit, 0};
  };
  api->GetBatchStatus = [](BatchHandle, unsigned, unsigned* room, BatchEvent* events, timespec*) {
    ++script->asked;
    if (script->status != 0) return Error{script->status, 0};
    unsigned given = 0;
    for (; given < *room && given < 2 && !script->events.empty(); ++given) {
      events[given] = script->events.front();
      script->events.pop_front();
    }
    *room = given;
    return Error{};
  };
  api->CancelBatch = [](BatchHandle) {
    ++script->cancelled;
    if (script->on_cancel_tell) {
      for (const BatchEntry& entry : script->entries) {
        script->events.push_back({entry.cookie, kBatchCancelled, 0});
      }
    }
    return Error{};
  };
  api->DestroyBatch = [](BatchHandle) { ++script->destroyed; };
  return api;
}

Batches::Options Quick() {
  using std::chrono::milliseconds;
  return {.entries = 8, .poll = milliseconds(1), .after_cancel = milliseconds(5), .errors = 3};
}

const std::vector<BatchPiece> kPieces = {
    {0, 0, 4096}, {8192, 4096, 4096}, {4096, 8192, 8192}, {65536, 16384, 4096}};

void* Cookie(size_t piece) { return reinterpret_cast<void*>(piece + 1); }

std::vector<BatchEnd> Run(Batches& batches, bool stop = false) {
  const std::atomic<bool> stopped = stop;
  return batches.Run(true, nullptr, nullptr, kPieces, stopped);
}

using How = BatchEnd::How;

}  // namespace

TEST_CASE("each piece of a batch ends as the library says, in whatever order") {
  Script says;
  says.events = {{Cookie(2), kBatchFailed, static_cast<size_t>(-EIO)},
                 {Cookie(0), kBatchComplete, 4096},
                 {Cookie(3), kBatchInvalid, 0},
                 {Cookie(1), kBatchCancelled, 0}};
  Batches batches(Library(says), Quick());
  CHECK(batches.entries() == 8);
  const auto ends = Run(batches);
  CHECK(ends[0].how == How::kMoved);
  CHECK(ends[0].result == 4096);
  CHECK(ends[1].how == How::kCancelled);
  CHECK(ends[2].how == How::kFailed);
  CHECK(ends[2].result == -EIO);
  CHECK(ends[3].how == How::kNotTaken);
  REQUIRE(says.entries.size() == kPieces.size());
  CHECK(says.entries[2].move.offset == 4096);
  CHECK(says.entries[2].move.inside == 8192);
  CHECK(says.entries[2].move.bytes == 8192);
  CHECK(says.entries[2].write == 1);
  CHECK(batches.broken().empty());
}

TEST_CASE("a context is used again, and goes with the last of it") {
  Script says;
  {
    Batches batches(Library(says), Quick());
    for (int i = 0; i < 3; ++i) {
      for (size_t piece = 0; piece < kPieces.size(); ++piece) {
        says.events.push_back({Cookie(piece), kBatchComplete, kPieces[piece].bytes});
      }
      for (const BatchEnd& end : Run(batches)) CHECK(end.how == How::kMoved);
    }
    CHECK(says.set_up == 1);
    CHECK(says.destroyed == 0);
  }
  CHECK(says.destroyed == 1);
}

TEST_CASE("a batch that is not taken is as if it had not been asked for, and there are no more") {
  Script says;
  says.submit = 5035;
  Batches batches(Library(says), Quick());
  for (const BatchEnd& end : Run(batches)) CHECK(end.how == How::kNotTaken);
  CHECK(batches.entries() == 0);
  CHECK(batches.broken().find("CU_FILE_BATCH_SUBMIT_FAILED") != std::string::npos);
  CHECK(says.destroyed == 1);
}

TEST_CASE(
    "where submitting fails otherwise some may have begun: all is lost, and the context kept") {
  Script says;
  says.submit = 5040;
  Batches batches(Library(says), Quick());
  for (const BatchEnd& end : Run(batches)) CHECK(end.how == How::kLost);
  CHECK(batches.entries() == 0);
  CHECK(says.cancelled == 1);
  CHECK(says.destroyed == 0);
}

TEST_CASE("what waits or is under way has not ended") {
  Script says;
  for (size_t piece = 0; piece < kPieces.size(); ++piece) {
    says.events.push_back({Cookie(piece), kBatchWaiting, 0});
    says.events.push_back({Cookie(piece), kBatchPending, 0});
  }
  for (size_t piece = 0; piece < kPieces.size(); ++piece) {
    says.events.push_back({Cookie(piece), kBatchComplete, kPieces[piece].bytes});
  }
  Batches batches(Library(says), Quick());
  for (const BatchEnd& end : Run(batches)) CHECK(end.how == How::kMoved);
  CHECK(batches.broken().empty());
}

TEST_CASE("an entry that timed out, or of which nobody knows what it is, is lost") {
  Script says;
  const int unknown = 0x80;
  says.events = {{Cookie(0), kBatchTimeout, 0},
                 {Cookie(1), unknown, 4096},
                 {Cookie(2), kBatchComplete, 8192},
                 {Cookie(3), kBatchComplete, 4096}};
  Batches batches(Library(says), Quick());
  const auto ends = Run(batches);
  CHECK(ends[0].how == How::kLost);
  CHECK(ends[1].how == How::kLost);
  CHECK(ends[2].how == How::kMoved);
  CHECK(batches.entries() == 0);
  CHECK(says.destroyed == 0);
}

TEST_CASE("what nobody wants any more is cancelled, and its context is not used again") {
  Script says;
  says.on_cancel_tell = true;
  Batches batches(Library(says), Quick());
  for (const BatchEnd& end : Run(batches, true)) CHECK(end.how == How::kCancelled);
  CHECK(says.cancelled == 1);
  CHECK(says.destroyed == 1);
  CHECK(batches.broken().empty());
}

TEST_CASE("pieces of which the library says nothing any more are lost, and told apart") {
  Script says;
  SECTION("it cannot say") {
    says.status = 5041;
    Batches batches(Library(says), Quick());
    for (const BatchEnd& end : Run(batches)) CHECK(end.how == How::kLost);
    CHECK(says.asked == 3);
    CHECK(batches.entries() == 0);
    CHECK(says.destroyed == 0);
  }
  SECTION("it is silent after they were cancelled") {
    says.events = {{Cookie(1), kBatchComplete, 4096}};
    Batches batches(Library(says), Quick());
    const auto ends = Run(batches, true);
    CHECK(ends[0].how == How::kLost);
    CHECK(ends[1].how == How::kMoved);
    CHECK(batches.entries() == 0);
  }
}

TEST_CASE("a library that tells of one piece twice, or of none of them, is believed no further") {
  Script says;
  says.events = {{Cookie(0), kBatchComplete, 4096}, {Cookie(0), kBatchFailed, 0},
                 {Cookie(77), kBatchComplete, 1},   {nullptr, kBatchComplete, 1},
                 {Cookie(1), kBatchComplete, 4096}, {Cookie(2), kBatchComplete, 8192},
                 {Cookie(3), kBatchComplete, 4096}};
  Batches batches(Library(says), Quick());
  for (const BatchEnd& end : Run(batches)) CHECK(end.how == How::kMoved);
  CHECK(batches.entries() == 0);
  CHECK_FALSE(batches.broken().empty());
}

TEST_CASE("without such calls, or with one entry, there are no batches") {
  Script says;
  Batches::Options one = Quick();
  one.entries = 1;
  CHECK(Batches(Library(says), one).entries() == 0);
  CHECK(Batches(std::make_shared<shim::CuFileApi>(), Quick()).entries() == 0);
}
