// Says which way bytes would go from a buffer here to one of another node, and why no better one;
// moves nothing:
//   explain BUFFER NODE BUFFER [COPIES]
// With COPIES, no more than so many are accepted.
#include <onecopy/client.h>

#include <cstdlib>
#include <iostream>

namespace {

void Print(const std::vector<onecopy::Refusal>& refused) {
  for (const onecopy::Refusal& one : refused) {
    std::cout << "not " << one.path << ": " << one.reason << ", " << one.detail << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::cerr << "usage: explain BUFFER NODE BUFFER [COPIES]\n";
    return 2;
  }
  auto client = onecopy::Client::Connect();
  if (!client) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  onecopy::TransferRequest request{.source = {"", argv[1]}, .destination = {argv[2], argv[3]}};
  if (argc == 5) {
    request.policy.at_most_copies = static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10));
  }
  const auto plan = client->PlanTransfer(request);
  if (!plan) {
    // POLICY_UNMET comes with every path that there is, and why not.
    std::cerr << plan.status() << "\n";
    Print(plan.status().refusals());
    return 1;
  }
  std::cout << plan->path << ", " << plan->copies() << " copies\n";
  Print(plan->refused);
  return 0;
}
