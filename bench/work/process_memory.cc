// Ordinary memory of processes between two nodes, held against registered host memory.
#include "bench/daemons/pair.h"
#include "bench/work/hold.h"
#include "bench/work/works.h"

namespace onecopy::bench {
namespace {

struct Ends {
  const char* what;
  const char* path;
  const char* from;
  const char* to;
};
constexpr Ends kEnds[] = {{"both ends", "tcp-staged", "process", "process"},
                          {"the source", "tcp-bounce", "process", "host"},
                          {"the destination", "tcp-bounce", "host", "process"}};

}  // namespace

std::vector<Row> ProcessMemory(const Settings& settings) {
  std::vector<Row> rows;
  const Result<Pair> pair = Pair::Start(settings.daemon);
  for (const Ends& ends : kEnds) {
    Row row = {.work = std::string("process memory, ") + ends.what,
               .path = ends.path,
               .bytes = settings.bytes,
               .ceiling = "tcp-direct of host memory"};
    row.floor = 0.2;  // two cores, which the sockets keep busy already, make 0.48
    row.target = 0.8;
    if (!pair.ok()) {
      rows.push_back(NotSetUp(std::move(row), pair.status()));
      continue;
    }
    const auto params = [&](const char* from, const char* to, const char* path) {
      return TransferParams{pair->east->AsNode(), from, pair->west->AsNode(), to, path, "tcp"};
    };
    const MakeCeiling ceiling = [&](const Moved&) {
      return MakeTransfer(params("host", "host", "tcp-direct"), settings.bytes);
    };
    // A window, and a buffer, for each end.
    rows.push_back(HoldTransfer(std::move(row), params(ends.from, ends.to, ends.path), ceiling,
                                settings, {.payloads_in_memory = 6, .must_be_there = true})
                       .row);
  }
  return rows;
}

}  // namespace onecopy::bench
