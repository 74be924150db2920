// A lane of the tcp link, whose peer sends any bytes: to its owner's end, which is asked, and to
// its reader's, which has asked.
#include <sys/socket.h>

#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "tests/support/memory.h"
#include "transport/core/contracts/link.h"
#include "transport/link/tcp/lane.h"

namespace onecopy::tcp {
namespace {

constexpr uint64_t kExportedBytes = 64 * 1024;
constexpr int kGets = 3;

class Owner final : public LaneOwner {
 public:
  Owner(os::EventLoop& loop, RegionRef exported) : loop_(loop), exports_(loop) {
    key_ = exports_.Add({std::move(exported), 0, kExportedBytes});
  }

  void GetEnded(unsigned, uint64_t, Status, bool) override { ++gets_ended; }
  void GetAbandoned(unsigned, uint64_t) override { ++gets_ended; }
  void Discarded(unsigned, uint64_t bytes) override { EXPECT(bytes <= kMaxGetBytes); }
  void MessageArrived(uint64_t, std::span<const std::byte> message) override {
    EXPECT(message.size() <= Connection::kMaxMessageBytes);
  }
  void BodySent(uint64_t, bool) override {}
  void ReportArrived(uint64_t, bool) override { ++reports; }
  void LaneFailed(std::shared_ptr<Lane>, Status status) override {
    EXPECT(!status.ok());
    loop_.Stop();
  }
  const Exports& exports() const override { return exports_; }
  void Clear() { exports_.Clear(); }
  uint64_t key() const { return key_; }

  int gets_ended = 0;
  int reports = 0;

 private:
  os::EventLoop& loop_;
  Exports exports_;
  uint64_t key_ = 0;
};

void Receive(bool reader, bool abandon, unsigned index, uint64_t key_byte, std::string bytes) {
  int ends[2];
  EXPECT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  const os::UniqueFd peer(ends[1]);
  os::EventLoop loop;
  const RegionRef exported = testing::HostRegion(kExportedBytes);
  const RegionRef into = testing::HostRegion(kExportedBytes);
  const auto owner = std::make_shared<Owner>(loop, exported);
  // A peer that was given the key knows it: where the input has it, it is put in.
  const uint64_t key = owner->key();
  if (key_byte < bytes.size() && bytes.size() - key_byte >= sizeof key) {
    std::copy_n(reinterpret_cast<const char*>(&key), sizeof key, bytes.begin() + key_byte);
  }
  const auto lane =
      std::make_shared<Lane>(index, loop, LaneSocket(os::UniqueFd(ends[0])), ZeroCopyUse::kOff);
  loop.Post([&] {
    lane->Start(owner, !reader);
    for (uint64_t tag = 1; reader && tag <= kGets; ++tag) {
      lane->Get({FrameKind::kGet, tag, 1, 0, 64 * tag}, {into, 4096 * tag, 64 * tag});
    }
    if (reader && abandon) lane->Abandon({2});
    // What does not fit into the socket's buffer is cut off.
    EXPECT(bytes.empty() || ::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
    EXPECT(::shutdown(peer.get(), SHUT_WR) == 0);
  });
  loop.Run();
  if (reader) EXPECT(owner->gets_ended == kGets);
  owner->Clear();
}

}  // namespace
}  // namespace onecopy::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  onecopy::fuzz::Input input(data, size);
  const uint8_t which = input.Byte();
  const uint8_t key_at = input.Byte();
  onecopy::tcp::Receive((which & 1) != 0, (which & 4) != 0, (which >> 1) & 1, key_at,
                        std::string(input.Rest()));
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  using namespace onecopy::tcp;
  const auto text = [](const FrameHeader& header, const std::string& body = {}) {
    const HeaderBytes bytes = Encode(header);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + body;
  };
  const std::string body(64, 'x');
  // Where a header has its key is for the mutations to find: all of the first header is tried.
  std::vector<std::string> seeds = {
      std::string("\0\377", 2) + text({FrameKind::kMessage, 5, 0, 0, 64}, body),
      std::string("\1\377", 2) + text({FrameKind::kWelcome, 0, 0, 0, 0}) +
          text({FrameKind::kData, 1, 0, 0, 64}, body) +
          text({FrameKind::kFail, 2, 7, 0, 3}, "A\nb"),
      std::string("\5\377", 2) + text({FrameKind::kWelcome, 0, 0, 0, 0}) +
          text({FrameKind::kData, 1, 0, 0, 64}, body) +
          text({FrameKind::kData, 2, 0, 0, 128}, body + body),
      std::string("\3\377", 2) + text({FrameKind::kWelcome, 1, 0, 0, 0}) +
          text({FrameKind::kData, 1, 0, 0, 64}, body) +
          text({FrameKind::kEnd, 1, kReportFollows, 0, 0}),
      std::string("\1\377", 2) + text({FrameKind::kReport, 1, kCopied, 0, 0}) +
          text({FrameKind::kReport, 2, 0, 0, 0}) + text({FrameKind::kReport, 3, 2, 0, 0})};
  // Whole answers: good ones, one that is void, and one that fails at once.
  const std::string end = text({FrameKind::kEnd, 1, 0, 0, 0});
  const std::string failure =
      text({FrameKind::kFail, 2, 7, 0, 60}, "ACCESS_DENIED\n" + body.substr(0, 46));
  for (const char which : {'\3', '\7'}) {
    seeds.push_back(std::string{which, '\377'} + text({FrameKind::kWelcome, 1, 0, 0, 0}) +
                    text({FrameKind::kData, 1, 0, 0, 64}, body) + end +
                    text({FrameKind::kData, 2, 0, 0, 128}, body + body) + failure +
                    text({FrameKind::kFail, 3, 5, 0, 3}, "A\nb"));
  }
  for (char at = 0; at < static_cast<char>(kHeaderBytes); at = static_cast<char>(at + 8)) {
    seeds.push_back(std::string{'\2', at} + text({FrameKind::kGet, 9, 0, 128, 4096}) +
                    text({FrameKind::kGet, 10, 0, 0, 64}));
  }
  return seeds;
}
