// Buffers and files that are not what the other end needs, or no longer what they were.
#include <unistd.h>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace endpoints_test {
namespace {

using namespace onecopy::testing;

// A pair of nodes, and a folder of files in which the commands run.
struct WithFiles {
  Survivors nodes;
  Node& east = nodes.east;
  TempFolder folder;

  CommandResult RunHere(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--run-dir", east.run_dir(), "--json"});
    return RunCommand("onecopy", arguments, {}, [this] {
      if (::chdir(folder.path().c_str()) != 0) ::_exit(126);
    });
  }
};

}  // namespace

TEST_CASE("a word that is no buffer and names a file suggests how to write the file") {
  WithFiles with;
  WriteFile(with.folder / "word", "abc");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"cp", "word", "kept"},
                                                {"cp", "kept", "word"},
                                                {"explain", "word", "kept"},
                                                {"cp", "word", "west:kept"}}) {
    const CommandResult refused = with.RunHere(words);
    CheckRefusedNaming(refused, 3, "NOT_FOUND", "BUFFER_NOT_FOUND", "\"word\"");
    CHECK(RemedyOf(refused).find("./word") != std::string::npos);
  }
  CHECK(ReadFile(with.folder / "word") == "abc");
  // A file that is about to be made, too; but not for the other end, which is right.
  CHECK(RemedyOf(with.RunHere({"cp", "kept", "new"})).find("./new") != std::string::npos);
  CHECK(RemedyOf(with.RunHere({"cp", "nope", "kept"})).find("./kept") == std::string::npos);
  CHECK(RemedyOf(with.RunHere({"cp", "k", "kept"})).find("./kept") == std::string::npos);
  CHECK(RemedyOf(with.RunHere({"cp", "west:k", "kept"})).find("./kept") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(with.folder / "new"));
  with.nodes.Check();
  CHECK(with.RunHere({"cp", "./word", "kept"}).exit_status == 0);
}

TEST_CASE("words that are no command are named") {
  WithFiles with;
  CheckRefusedNaming(with.RunHere({"frobnicate"}), 2, "INVALID_ARGUMENT", "BAD_ARGUMENT",
                     "\"frobnicate\"");
  CheckRefusedNaming(with.RunHere({"buffer", "mangle", "kept"}), 2, "INVALID_ARGUMENT",
                     "BAD_ARGUMENT", "\"mangle\" is not a command of `onecopy buffer`");
  CheckRefusedNaming(with.RunHere({"cp", "kept"}), 2, "INVALID_ARGUMENT", "BAD_ARGUMENT",
                     "one destination");
  CheckRefusedNaming(with.RunHere({"cp", "kept", "b", "c"}), 2, "INVALID_ARGUMENT", "BAD_ENDPOINT",
                     "\"kept\" is not");
  CheckRefusedNaming(with.RunHere({"cp", "kept", "b", "--fast"}), 2, "INVALID_ARGUMENT",
                     "BAD_ARGUMENT", "--fast");
  with.nodes.Check();
}

TEST_CASE("a longer file moves no byte, and a shorter one fills the buffer's beginning") {
  WithFiles with;
  WriteFile(with.folder / "long", std::string(4097, 'l'));
  WriteFile(with.folder / "short", std::string(10, 's'));
  for (const char* destination : {"kept", "west:kept"}) {
    const CommandResult refused = with.RunHere({"cp", "./long", destination});
    CheckRefusedNaming(refused, 2, "INVALID_ARGUMENT", "SIZE_MISMATCH", "4097");
    CHECK(refused.message().find("4096") != std::string::npos);
    CHECK(RemedyOf(refused) != "");
  }
  CheckRefused(with.RunHere({"cp", "./long@0+20", "kept@4090"}), 2, "INVALID_ARGUMENT",
               "SIZE_MISMATCH");
  with.nodes.Check();
  const std::string before = Contents(with.east, "kept");
  CHECK(with.RunHere({"cp", "./short", "kept"}).exit_status == 0);
  CHECK(Contents(with.east, "kept") == std::string(10, 's') + before.substr(10));
  CHECK(with.RunHere({"cp", "./long@0+4096", "kept"}).exit_status == 0);
  CHECK(Contents(with.east, "kept") == std::string(4096, 'l'));
}

TEST_CASE("a longer pipe is refused though its end was not known") {
  WithFiles with;
  with.east.Do({"buffer", "create", "b", "--size", "4096"});
  CheckRefusedNaming(with.east.Run({"cp", "-", "b"}, std::string(4097, 'l')), 2, "INVALID_ARGUMENT",
                     "SIZE_MISMATCH", "standard input");
  with.nodes.Check();
}

TEST_CASE("an id is worth nothing after its buffer was removed and made anew") {
  WithFiles with;
  const std::string id =
      with.east.Do({"buffer", "create", "b", "--size", "4096"}).at("id").get<std::string>();
  CheckReceipt(with.east.Do({"cp", "kept", id}), {"local", 4096, false});
  with.east.Do({"buffer", "rm", id});
  with.east.Do({"buffer", "create", "b", "--size", "4096"});
  for (const std::vector<std::string>& words : {std::vector<std::string>{"cp", id, "west:kept"},
                                                {"cp", "kept", id},
                                                {"buffer", "show", id},
                                                {"buffer", "rm", id},
                                                {"buffer", "rm", id, "--force"},
                                                {"buffer", "sum", id},
                                                {"grant", "add", id, "--to", "1", "--read"}}) {
    CheckRefusedNaming(with.RunHere(words), 3, "NOT_FOUND", "BUFFER_NOT_FOUND", id);
  }
  CHECK(Contents(with.east, "b") == std::string(4096, '\0'));
  with.nodes.Check();
}

TEST_CASE("a second buffer of one name is refused, and the first keeps its bytes") {
  WithFiles with;
  CheckRefusedNaming(with.RunHere({"buffer", "create", "kept", "--size", "1MiB"}), 2,
                     "ALREADY_EXISTS", "NAME_TAKEN", "\"kept\"");
  onecopy::Client client = with.east.Connect();
  CheckFailed(client.CreateHostBuffer("kept", 1).status(), onecopy::Code::kAlreadyExists,
              "NAME_TAKEN");
  with.nodes.Check();
}
}  // namespace endpoints_test
