#include "bench/matrix/table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <string>

#include "onecopy/size.h"
#include "transport/shim/cuda.h"

namespace onecopy::bench {
namespace {

using Text = std::function<std::string(const PairFigures&)>;
using Select = std::function<const Figure&(const PairFigures&)>;

std::string Decimals(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

std::string MissingText(const Figure& figure) {
  switch (WhyMissing(figure)) {
    case Missing::kNoP2p:
      return "no P2P";
    case Missing::kStopped:
      return "-";
    case Missing::kFailed:
      break;
  }
  return "failed";
}

std::string Padded(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

void PrintCells(const Matrix& matrix, const Text& text_of, std::ostream& out) {
  constexpr char kCorner[] = "from\\to";
  size_t width = 9;
  std::vector<std::string> cells;
  for (const PairFigures& pair : matrix.pairs) {
    cells.push_back(text_of(pair));
    width = std::max(width, cells.back().size());
  }
  out << kCorner;
  for (size_t to = 0; to < matrix.gpus.size(); ++to) {
    out << ' ' << Padded(std::to_string(to), width);
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i % matrix.gpus.size() == 0) {
      out << '\n' << Padded(std::to_string(i / matrix.gpus.size()), sizeof kCorner - 1);
    }
    out << ' ' << Padded(cells[i], width);
  }
  out << '\n';
}

void PrintFigures(const Matrix& matrix, const std::string& heading, double scale,
                  const Select& select, std::ostream& out) {
  out << '\n' << heading << '\n';
  PrintCells(
      matrix,
      [&](const PairFigures& pair) {
        const Figure& figure = select(pair);
        return figure.ok() ? Decimals(*figure * scale) : MissingText(figure);
      },
      out);
  for (const PairFigures& pair : matrix.pairs) {
    const Figure& figure = select(pair);
    if (figure.ok() || WhyMissing(figure) == Missing::kStopped) continue;
    out << "  " << pair.from << " -> " << pair.to << ": " << MissingText(figure) << ": "
        << figure.status().message() << '\n';
  }
}

void PrintHead(const Matrix& matrix, std::ostream& out) {
  out << matrix.gpus.size() << (matrix.gpus.size() == 1 ? " GPU" : " GPUs") << ", CUDA "
      << shim::CudaVersionText(matrix.cuda_version)
      << (matrix.driver_version.empty() ? "" : ", driver " + matrix.driver_version) << '\n';
  for (size_t i = 0; i < matrix.gpus.size(); ++i) {
    out << "  " << i << "  " << matrix.gpus[i].name << "  " << matrix.gpus[i].uuid << '\n';
  }
  out << "Copies and transfers of " << FormatBytes(matrix.bytes) << "; medians of "
      << matrix.samples << (matrix.samples == 1 ? " sample" : " samples") << " after a warm-up.\n"
      << "A plain sample is " << kCopiesPerSample
      << " copies one after the other on a stream, timed by events around them.\n"
      << "GB are 10^9 bytes. Diagonal: inside a GPU; each byte counts once "
         "(p2pBandwidthLatencyTest counts it twice).\n";
}

}  // namespace

void PrintMatrix(const Matrix& matrix, std::ostream& out) {
  constexpr double kGigabytes = 1e-9;
  constexpr double kMicroseconds = 1e6;
  const std::string copies = "copies of " + std::to_string(kLatencyCopyBytes) + " B";
  const std::string transfers = "transfers of " + FormatBytes(kLatencyTransferBytes);
  const auto print = [&](const std::string& heading, double scale, const Select& select) {
    PrintFigures(matrix, heading, scale, select, out);
  };
  PrintHead(matrix, out);
  print(
      "Plain CUDA, one way, P2P on (GB/s)", kGigabytes,
      [](const auto& pair) -> auto& { return pair.p2p_on.one_way_bytes_per_second; });
  print(
      "Plain CUDA, one way, P2P off (GB/s)", kGigabytes,
      [](const auto& pair) -> auto& { return pair.p2p_off.one_way_bytes_per_second; });
  print(
      "Plain CUDA, both ways at once, the sum, P2P on (GB/s)", kGigabytes,
      [](const auto& pair) -> auto& { return pair.p2p_on.both_ways_bytes_per_second; });
  print(
      "Plain CUDA, both ways at once, the sum, P2P off (GB/s)", kGigabytes,
      [](const auto& pair) -> auto& { return pair.p2p_off.both_ways_bytes_per_second; });
  print(
      "Plain CUDA, one way through pinned host memory, in overlapping pieces (GB/s)", kGigabytes,
      [](const auto& pair) -> auto& { return pair.through_host_bytes_per_second; });
  print(
      "Plain CUDA, latency of " + copies + ", P2P on (us)", kMicroseconds,
      [](const auto& pair) -> auto& { return pair.p2p_on.latency_seconds; });
  print(
      "Plain CUDA, latency of " + copies + ", P2P off (us)", kMicroseconds,
      [](const auto& pair) -> auto& { return pair.p2p_off.latency_seconds; });
  print(
      "onecopy, one way, one transfer at a time, by the client's clock (GB/s)", kGigabytes,
      [](const auto& pair) -> auto& { return pair.onecopy_bytes_per_second; });
  out << "\nonecopy, the path of these transfers\n";
  PrintCells(
      matrix,
      [](const PairFigures& pair) { return pair.onecopy_path.empty() ? "-" : pair.onecopy_path; },
      out);
  print(
      "onecopy, latency of " + transfers + ", by the client's clock (us)", kMicroseconds,
      [](const auto& pair) -> auto& { return pair.onecopy_latency_seconds; });
}

}  // namespace onecopy::bench
