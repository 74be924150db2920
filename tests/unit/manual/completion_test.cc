#include "deploy/manual/completion.h"

#include "tests/support/catch.h"
#include "tests/unit/manual/small_program.h"

using onecopy::testing::Has;
using onecopy::testing::SmallProgram;

// tests/packages runs the real ones in their shells.
TEST_CASE("bash: commands, options with inherited ones, and values that are no commands") {
  const std::string script = onecopy::manual::BashCompletion(SmallProgram());
  CHECK(Has(script, "'mv-things') commands='go thing' "));
  CHECK(Has(script,
            "'mv-things go') files=1 options='--into --times --also --make --help -h --quiet -q'"));
  CHECK(Has(script, "'mv-things go --into') mapfile -t COMPREPLY < <(compgen -d "));
  CHECK(Has(script, "complete -F _mv_things mv-things\n"));
  CHECK_FALSE(Has(script, "secret"));
}

TEST_CASE("zsh: a function for each command, with what is special in it quoted") {
  const std::string script = onecopy::manual::ZshCompletion(SmallProgram());
  CHECK(script.starts_with("#compdef mv-things\n"));
  CHECK(Has(script, "'--into=[Where to \\[a folder\\]]:DIR:_files -/'"));
  CHECK(Has(script, "'*--also=[Who else]:NAME: '"));
  CHECK(Has(script, "'--make=-[Of what]::VALUE: '"));
  CHECK(Has(script, "'go:It'\\''s the way\\: there'"));
  CHECK(Has(script, "_mv_things_thing_ls() {\n"));
  CHECK(Has(script, "'*:MORE:()'"));
}

TEST_CASE("fish: a line for each command and option, under the words before it") {
  const std::string script = onecopy::manual::FishCompletion(SmallProgram());
  CHECK(Has(
      script,
      "complete -c mv-things -n '__mv_things_at \"mv-things\"' -a go -d 'It\\'s the way: there'"));
  CHECK(Has(script, " -l quiet -s q -d 'Say nothing'"));
  CHECK(Has(script, "case 'mv-things go --into' 'mv-things go --times'"));
  CHECK_FALSE(Has(script, "-l make -x"));
}
