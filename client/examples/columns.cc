// Moves one column of a table that is stored row by row, as a plain array, in one transfer:
//   columns NODE BUFFER ROWS
// The buffer takes 4 bytes for each row.
#include <onecopy/client.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace {

struct Row {
  double time;
  float value;
  char rest[20];
};
static_assert(sizeof(Row) == 32);

int Fail(const onecopy::Status& status) {
  std::cerr << status << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: columns NODE BUFFER ROWS\n";
    return 2;
  }
  const uint64_t rows = std::strtoull(argv[3], nullptr, 10);
  auto client = onecopy::Client::Connect();
  if (!client) return Fail(client.status());
  auto table = client->CreateHostBuffer("", rows * sizeof(Row));
  if (!table) return Fail(table.status());
  for (uint64_t i = 0; i < rows; ++i) {
    const Row row{0.001 * static_cast<double>(i), static_cast<float>(i) / 2, "rest"};
    std::memcpy(table->data() + i * sizeof(Row), &row, sizeof row);
  }

  onecopy::TransferRequest request{.source = table->endpoint(0, rows * sizeof(Row)),
                                   .destination = {argv[1], argv[2]}};
  // Offset, bytes, stride, count; the other side is one plain range.
  request.ranges = {
      {{offsetof(Row, value), sizeof(float), sizeof(Row), rows}, {0, rows * sizeof(float)}}};
  const auto done = client->RunTransfer(request);
  const onecopy::Status outcome = done ? OutcomeOf(*done) : done.status();
  if (!outcome.ok()) return Fail(outcome);
  std::cout << rows << " floats in " << done->receipt.path << "\n";
  return 0;
}
