// A pool of host memory: its pieces are ranges of few buffers, which move as any other.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"

namespace pool_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::Pool;
using onecopy::PoolSlab;
using onecopy::Result;
using onecopy::Status;
using onecopy::TransferInfo;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::byte* Have(Pool& pool, uint64_t bytes, uint64_t seed) {
  auto* const at = static_cast<std::byte*>(Must(pool.Allocate(bytes)));
  const std::string payload = Payload(bytes, seed);
  std::memcpy(at, payload.data(), bytes);
  return at;
}

}  // namespace

TEST_CASE("pieces of a pool move in place, and are no registrations of their own") {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const auto from = Must(east.CreatePool({.name = "from", .slab_bytes = 8 * kMiB}));
  const auto to = Must(west.CreatePool({.name = "to", .slab_bytes = 8 * kMiB}));
  struct Piece {
    std::byte* source;
    std::byte* target;
    uint64_t bytes;
  };
  std::vector<Piece> pieces;
  for (uint64_t i = 0; i < 20; ++i) {
    const uint64_t bytes = 1 + i * 12'345;
    pieces.push_back({Have(*from, bytes, i), Have(*to, bytes, 100 + i), bytes});
  }
  for (const Piece& piece : pieces) {
    const TransferInfo done =
        Must(RunNegotiated(east, {.source = Must(from->endpoint(piece.source)),
                                  .destination = Must(to->endpoint(piece.target)),
                                  .checksum = true}));
    CheckReceipt(done, {.path = "tcp-direct", .bytes = piece.bytes, .checksum = true});
  }
  for (uint64_t i = 0; i < pieces.size(); ++i) {
    INFO(i);
    CHECK(IsPayload(pieces[i].target, pieces[i].bytes, i));
  }
  REQUIRE(Must(east.ListBuffers()).size() == 1);
  CHECK(Must(east.ListBuffers())[0].name == "from.1");
  CHECK(Must(west.ListBuffers()).size() == 1);
  const std::vector<PoolSlab> slabs = from->slabs();
  REQUIRE(slabs.size() == 1);
  CHECK(slabs[0].buffer.form == "memfd");
  // A part of a piece.
  const auto part = Must(from->endpoint(pieces[9].source + 100, 1000));
  CHECK(part.buffer == slabs[0].buffer.id);
  CHECK(part.offset_bytes ==
        static_cast<uint64_t>(pieces[9].source + 100 - static_cast<std::byte*>(slabs[0].data)));
  CHECK(part.bytes == 1000);
}

TEST_CASE("what is no piece of the pool is no range of it") {
  Node east("east");
  Client client = east.Connect();
  const auto pool = Must(client.CreatePool());
  CHECK(Must(client.ListBuffers()).empty());  // before the first piece
  std::byte* const piece = Have(*pool, 1000, 1);
  int elsewhere = 0;
  const auto reason = [&](const void* pointer, std::optional<uint64_t> bytes) {
    return pool->endpoint(pointer, bytes).status().reason();
  };
  CHECK(reason(&elsewhere, {}) == "BUFFER_NOT_FOUND");
  CHECK(reason(piece, 1001) == "RANGE_OUT_OF_BUFFER");
  CHECK(reason(piece + 999, 2) == "RANGE_OUT_OF_BUFFER");
  CHECK(reason(piece + 1000, {}) == "BUFFER_NOT_FOUND");
  CHECK(reason(piece, 0) == "BAD_SIZE");
  CHECK(pool->Deallocate(piece, 999).reason() == "SIZE_MISMATCH");
  CHECK(pool->Deallocate(piece, 0, 5).reason() == "BAD_ARGUMENT");
  CHECK(pool->Allocate(1, 5).status().reason() == "BAD_ARGUMENT");
  CHECK(pool->Allocate(0).status().reason() == "BAD_SIZE");
  Must(pool->Deallocate(piece));
  CHECK(pool->Deallocate(piece).reason() == "BAD_POINTER");
  CHECK(reason(piece, {}) == "BUFFER_NOT_FOUND");
  CHECK(client.CreatePool({.slab_bytes = 0}).status().reason() == "BAD_SIZE");
  CHECK(client.CreatePool({.initial_bytes = 2, .limit_bytes = 1}).status().reason() == "BAD_SIZE");
  CHECK(Must(client.CreatePool({.name = "no name"}))->Grow(1).reason() == "BAD_NAME");
}

TEST_CASE("the pool's limit and the daemon's are told apart, and neither ends anything") {
  Node east("east",
            {.config = "[limits]\nbuffers_per_user = 2\nbuffers = 2\nreserved_percent = 0\n"});
  Client client = east.Connect();
  const auto pool = Must(client.CreatePool({.slab_bytes = kMiB, .limit_bytes = 8 * kMiB}));
  const Status own = pool->Allocate(9 * kMiB).status();
  CHECK(own.code() == Code::kResourceExhausted);
  CHECK(own.reason() == "QUOTA");
  CHECK(own.message().find("the pool has") != std::string::npos);
  std::byte* const first = Have(*pool, kMiB, 1);
  std::byte* const second = Have(*pool, kMiB, 2);
  const Status daemons = pool->Allocate(1).status();
  CHECK(daemons.code() == Code::kResourceExhausted);
  CHECK(daemons.reason() == "QUOTA");
  CHECK(daemons.remedy().find("[limits] buffers") != std::string::npos);
  Must(pool->Deallocate(first));
  CHECK(Must(pool->Allocate(kMiB)) == first);
  CHECK(IsPayload(second, kMiB, 2));
  Must(pool->Deallocate(first));
  CHECK(Must(pool->Trim()) == kMiB);
  CHECK(Must(client.ListBuffers()).size() == 1);
  CHECK(IsPayload(second, kMiB, 2));
}

TEST_CASE("a pool outlives its daemon, with its bytes and under the same names") {
  Node east("east");
  Client client = east.Connect();
  const auto pool = Must(client.CreatePool({.name = "p", .slab_bytes = kMiB}));
  std::byte* const piece = Have(*pool, 5000, 3);
  const auto before = Must(pool->endpoint(piece));
  east.Kill();
  const Status gone = pool->Allocate(2 * kMiB).status();
  CHECK(gone.code() == Code::kUnavailable);
  CHECK(Must(pool->endpoint(piece)).bytes == 5000);
  std::byte* const other = Have(*pool, 5000, 4);  // of the slab that is there
  east.Restart();
  Must(client.Ping());
  const auto after = Must(pool->endpoint(piece));
  CHECK(after.buffer != before.buffer);
  CHECK(Must(client.GetBuffer("", "p.1")).id == after.buffer);
  const TransferInfo done =
      Must(client.RunTransfer({.source = after, .destination = Must(pool->endpoint(other, 5000))}));
  CHECK(done.state == TransferState::kSucceeded);
  CHECK(IsPayload(other, 5000, 3));
}

TEST_CASE("a pool keeps the connection, and its end is that of its buffers") {
  Node east("east");
  Client observer = east.Connect();
  auto pool = [&] {
    Client client = east.Connect();
    return Must(client.CreatePool({.slab_bytes = kMiB, .initial_bytes = 3 * kMiB}));
  }();
  CHECK(Must(observer.ListBuffers()).size() == 1);
  CHECK(pool->statistics().bytes_reserved == 3 * kMiB);
  Have(*pool, 100, 1);
  pool.reset();
  CHECK(Must(observer.ListBuffers()).empty());
}

TEST_CASE("a child has no part in its parent's pool") {
  Node east("east");
  Client client = east.Connect();
  auto pool = Must(client.CreatePool({.slab_bytes = kMiB}));
  std::byte* const piece = Have(*pool, 100, 1);
  CHECK(InChild([&] {
          if (pool->Allocate(1).status().reason() != "FORKED") return 1;
          if (pool->Deallocate(piece).reason() != "FORKED") return 2;
          if (pool->endpoint(piece).status().reason() != "FORKED") return 3;
          if (pool->Trim().status().reason() != "FORKED") return 4;
          if (pool->Grow(1).reason() != "FORKED") return 5;
          if (client.CreatePool().status().reason() != "FORKED") return 6;
          pool.reset();
          return 0;
        }) == 0);
  CHECK(IsPayload(piece, 100, 1));
  CHECK(Must(client.ListBuffers()).size() == 1);
  Must(pool->Deallocate(piece));
}

TEST_CASE("threads allocate, move and free at once") {
  Node east("east");
  Client client = east.Connect();
  const auto pool = Must(client.CreatePool({.slab_bytes = kMiB}));
  std::atomic<int> wrong{0};
  const auto work = [&](uint64_t index) {
    for (uint64_t round = 0; round < 30; ++round) {
      const uint64_t bytes = 1000 + 7777 * round;
      const Result<void*> one = pool->Allocate(bytes);
      const Result<void*> two = pool->Allocate(bytes);
      if (!one.ok() || !two.ok()) {
        ++wrong;
        return;
      }
      std::memset(*one, static_cast<int>(16 * index + 1), bytes);
      const auto done = client.RunTransfer(
          {.source = *pool->endpoint(*one), .destination = *pool->endpoint(*two)});
      if (!done.ok() || done->state != TransferState::kSucceeded) ++wrong;
      if (std::memcmp(*one, *two, bytes) != 0) ++wrong;
      if (!pool->Deallocate(*one).ok() || !pool->Deallocate(*two).ok()) ++wrong;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (uint64_t index = 0; index < 4; ++index) threads.emplace_back(work, index);
  }
  CHECK(wrong == 0);
  CHECK(pool->statistics().blocks_in_use == 0);
}
}  // namespace pool_test
