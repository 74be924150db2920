#include "deploy/manual/man_page.h"

#include "deploy/manual/roff.h"
#include "tests/support/catch.h"
#include "tests/unit/manual/small_program.h"

using onecopy::manual::Escape;
using onecopy::manual::PrintManPage;
using onecopy::testing::Has;
using onecopy::testing::SmallProgram;

TEST_CASE("nothing in a text is a request to roff") {
  CHECK(Escape(".so /etc/passwd") == "\\&.so /etc/passwd");
  CHECK(Escape("a\n'b") == "a\n\\&\\(aqb");
  CHECK(Escape("C:\\n --x `y` \"z\"") == "C:\\en \\-\\-x \\(gay\\(ga \\(dqz\\(dq");
}

TEST_CASE("a manual page has all that the definition has") {
  const std::string page = PrintManPage(SmallProgram(), {1, "things 2", {"other(8)"}});
  CHECK(Has(page, ".TH MV-THINGS 1 \"\" \"things 2\""));
  CHECK(Has(page, "mv\\-things \\- Moves things\n"));
  CHECK(Has(page, ".SS \"mv\\-things go [OPTIONS] FILE [MORE]...\""));
  CHECK(Has(page, "\\fB\\-\\-into\\fR \\fIDIR\\fR\nWhere to [a folder]. Required.\n"));
  CHECK(Has(page, "\\fB\\-\\-make\\fR[=\\fIVALUE\\fR]"));
  CHECK(Has(page, ".SH \"EXIT STATUS\"\n0 done, 1 not.\n"));
  CHECK(Has(page, ".SH \"SEE ALSO\"\n\\fBother\\fR(8)\n"));
  CHECK_FALSE(Has(page, "secret"));
}
