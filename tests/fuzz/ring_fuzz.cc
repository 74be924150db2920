// A client's ring, into which it writes what it likes, whenever it likes: an input is a list of
// words and where they go, with turns of the daemon's end between.
#include <sys/socket.h>

#include <memory>

#include "daemon/ring/served_ring.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory.h"
#include "transport/memory/host/small_copy_route.h"

namespace onecopy::ring {
namespace {

constexpr uint64_t kBufferBytes = 128 * 1024;
constexpr uint32_t kPlace = 3;
constexpr uint64_t kSerial = 5;

enum : uint8_t { kSubmit, kWord, kReaped, kSubmitted, kTurn, kSleep, kRevoke, kDrain, kActions };

// The client's view.
class Writer {
 public:
  Writer(Shared& shared, fuzz::Input& input) : shared_(shared), input_(input) {}

  // A submission that would be right, but for what is in it.
  void Submit() {
    Submission& entry = shared_.submissions[count_ % kSubmissions];
    entry.words[Submission::kNumber].store(count_);
    entry.words[Submission::kRoute].store(Small() ? RouteWord(kSerial, kPlace) : Number());
    for (const auto word : {Submission::kFrom, Submission::kTo, Submission::kBytes}) {
      entry.words[word].store(Small() ? input_.Get<uint16_t>() : Number());
    }
    shared_.submitted.store(++count_);
  }
  // Any word of all that is shared.
  void Word() {
    const uint64_t at = input_.Get<uint32_t>() % (sizeof(Shared) / sizeof(uint64_t));
    reinterpret_cast<std::atomic<uint64_t>*>(&shared_)[at].store(Number());
  }
  void Reaped() { shared_.reaped.store(Small() ? shared_.completed.load() : Number()); }
  void Submitted() { shared_.submitted.store(Number()); }

 private:
  bool Small() { return (input_.Byte() & 7) != 0; }
  uint64_t Number() { return input_.Get<uint64_t>(); }

  Shared& shared_;
  fuzz::Input& input_;
  uint64_t count_ = 0;
};

void Use(fuzz::Input input) {
  auto end = DaemonEnd::Make();
  EXPECT(end.ok());
  auto mapping = os::MapShared(end->memory(), sizeof(Shared));
  EXPECT(mapping.ok());
  Shared& shared = *reinterpret_cast<Shared*>(mapping->data());
  int ends[2];
  EXPECT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  const os::UniqueFd client(ends[1]);
  // Guarded by AddressSanitizer: what is written beside it is found.
  const RegionRef from = testing::HostRegion(kBufferBytes);
  const RegionRef to = testing::HostRegion(kBufferBytes);
  auto route = std::make_shared<Route>();
  route->serial = kSerial;
  route->way = std::make_shared<host::HostSmallCopyRoute>("east", from, to);
  route->from = {4096, 65536};
  route->to = {100, 65536};

  LongWork long_work;
  std::vector<CopyPiece> pieces;
  ServedRing ring(std::move(*end), os::UniqueFd(ends[0]), std::make_shared<Journal>(), long_work,
                  pieces);
  ring.Install(kPlace, route);
  Writer writer(shared, input);
  bool revoked = false;
  while (!input.empty()) {
    switch (input.Byte() % kActions) {
      case kSubmit:
        writer.Submit();
        break;
      case kWord:
        writer.Word();
        break;
      case kReaped:
        writer.Reaped();
        break;
      case kSubmitted:
        writer.Submitted();
        break;
      case kSleep:
        ring.Sleep();
        break;
      case kRevoke:
        if (!std::exchange(revoked, true)) {
          route->Revoke({Code::kNotFound, "BUFFER_NOT_FOUND", "removed"});
        }
        break;
      case kDrain:
        ring.Turn(true);
        break;
      default:
        ring.Turn(false);
    }
  }
  while (ring.under_way() > 0) ring.Finish();
  ring.End(State::kEnded);
  // Nothing but what the route allows.
  for (uint64_t i = 0; i < 100; ++i) EXPECT(to->address()[i] == std::byte{0});
  for (uint64_t i = 100 + 65536; i < kBufferBytes; ++i) EXPECT(to->address()[i] == std::byte{0});
}

}  // namespace
}  // namespace onecopy::ring

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  onecopy::ring::Use(onecopy::fuzz::Input(data, size));
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  using namespace onecopy::ring;
  // Route and numbers small: from 4096, to 256, 512 bytes.
  const std::string submit = std::string{kSubmit} + std::string("\1\1\0\x10\1\0\1\1\0\2", 10);
  const std::string turn{static_cast<char>(kTurn)};
  const std::string reaped = std::string{static_cast<char>(kReaped)} + "\1";
  return {submit + turn + reaped,
          submit + submit + turn + turn + reaped + submit + turn,
          submit + std::string{static_cast<char>(kSleep)} + turn,
          submit + std::string{static_cast<char>(kRevoke)} + turn,
          submit + std::string{static_cast<char>(kDrain)},
          std::string{static_cast<char>(kSubmitted)} + "\xff\xff\xff\xff\xff\xff\xff\xff" + turn};
}
