// What UCX says of its operations, in the words of the versions that were tried.
#include "transport/link/ucx/protocol.h"

#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::ucx;

namespace {

const GetEnds kEnds{"east", "GPU-1", "west", "host", false};

StepList Steps(const Protocol& protocol, const GetEnds& ends = kEnds) {
  return StepsOf(protocol, ends, [](const std::string& device) { return device == "rxe0"; });
}

std::string Text(const StepList& steps) {
  std::string text;
  for (const Step& step : *steps) {
    text += step.node + ":" + step.from + ">" + step.to + " by " + step.by;
    if (step.loopback) text += " loopback";
    if (step.emulated) text += " emulated";
    text += "; ";
  }
  return text;
}

}  // namespace

TEST_CASE("UCX's words for a get are read in both forms, without sizes and estimates") {
  const Protocol old = ParseProtocol(
      "flags:0x84 get() into host memory length 1048576 zero-copy rc_verbs/rxe0:1 1163.7 MB/s "
      "859.35 us");
  CHECK(old.description == "zero-copy rc_verbs/rxe0:1");
  CHECK(old.method == Method::kZeroCopy);
  CHECK(old.transport == "rc_verbs");
  CHECK(old.devices == std::vector<std::string>{"rxe0"});

  const Protocol recent = ParseProtocol(
      "{proto|init} get into host memory length 67108864 software emulation tcp/lo 11.9 MB/s "
      "5372112.14 us");
  CHECK(recent.description == "software emulation tcp/lo");
  CHECK(recent.method == Method::kEmulation);
  CHECK(recent.transport == "tcp");

  CHECK(ParseProtocol(
            "{proto|init} get into cuda/GPU0 memory length 64 zero-copy cuda_ipc/cuda 371.0 "
            "GB/s 12 us")
            .transport == "cuda_ipc");
  const Protocol several = ParseProtocol(
      "x length 5 zero-copy 50% on rc_mlx5/mlx5_0:1 and 50% on rc_mlx5/mlx5_1:1, 3.0 MB/s 1 us");
  CHECK(several.method == Method::kZeroCopy);
  CHECK(several.devices == std::vector<std::string>{"mlx5_0", "mlx5_1"});
  // The same without estimates.
  CHECK(ParseProtocol("get() into host memory length 1 copy-out rc_verbs/rxe0:1").method ==
        Method::kCopyOut);
}

TEST_CASE("what is not known stays unknown, and is bounded") {
  for (const char* text :
       {"", "<no debug info>", "flags:0x0 <no debug info>", "length", " length ", " length x",
        " length 5", " length 5 ", "get length 5 by magic rc_verbs/rxe0:1 1 MB/s 1 us",
        "get length 5 zero-copyish rc_verbs/rxe0:1", "get length 5 zero-copy",
        "get length 5 zero-copy nowhere", "get length 5 zero-copy / 1 MB/s", "get length 5 B/s",
        "get length 5 MB/s"}) {
    CAPTURE(text);
    CHECK(ParseProtocol(text).method == Method::kUnknown);
  }
  CHECK(ParseProtocol(std::string(10'000, 'x')).description.size() <= 200);
  CHECK(ParseProtocol(" length 1 " + std::string(10'000, 'x')).description.size() <= 200);
}

TEST_CASE("steps are the passes that were made, and the longest way where that is not known") {
  auto parsed = [](const std::string& words) { return ParseProtocol("get length 1 " + words); };
  CHECK(Text(Steps(parsed("zero-copy rc_verbs/mlx5_0:1"))) == "west:GPU-1>host by wire; ");
  CHECK(Text(Steps(parsed("zero-copy rc_verbs/rxe0:1"))) == "west:GPU-1>host by wire emulated; ");
  CHECK(Text(Steps(parsed("zero-copy cma/memory"))) == "west:GPU-1>host by cpu; ");
  CHECK(Text(Steps(parsed("zero-copy cuda_ipc/cuda"))) == "west:GPU-1>host by copy-engine; ");
  CHECK(Text(Steps(parsed("copy-out rc_verbs/mlx5_0:1"))) ==
        "west:GPU-1>ucx by wire; west:ucx>host by cpu; ");
  CHECK(Steps(parsed("software emulation sysv/memory"))->size() == 2);
  CHECK(Steps(parsed("software emulation rc_verbs/mlx5_0:1"))->size() == 3);
  CHECK(Text(Steps(parsed("software emulation tcp/lo"))) ==
        "east:GPU-1>ucx by copy-engine; east:ucx>kernel by cpu; west:kernel>kernel by wire; "
        "west:kernel>ucx by cpu; west:ucx>host by cpu; ");
  // A transport that nobody here has heard of could do anything.
  for (const char* words : {"zero-copy new_thing/x", "by magic rc_verbs/rxe0:1"}) {
    const StepList steps = Steps(parsed(words));
    CHECK(steps->size() == 5);
    CHECK(steps->front().by == "unknown");
  }
  GetEnds ends = kEnds;
  ends.same_machine = true;
  CHECK(Steps(parsed("zero-copy rc_verbs/mlx5_0:1"), ends)->front().loopback);
}
