// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "usage.h"
#include "verbs.h"

namespace strop {
namespace {

using AddVerb = void (*)(CLI::App& app, int* exit_code);
constexpr AddVerb kVerbs[] = {
#ifndef STROP_NO_AUTODIFF
    AddCheckVerb, AddPrepareVerb,
#endif
    AddTrainVerb, AddEvalVerb,    AddExportVerb, AddInspectVerb, AddBenchVerb};

int Fail(const char* text, int exit_code) {
  std::fflush(stdout);
  std::fprintf(stderr, "strop: error: %s\n", text);
  return exit_code;
}

// The parser alone would only say that a verb is missing.
void CheckVerb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::string verbs;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() == argv[1]) return;
    verbs += (verbs.empty() ? "" : ", ") + verb->get_name();
  }
  ThrowUsage("there is no verb \"{}\"; there are {}", argv[1], verbs);
}

// 0, or a failure where standard output did not take all (a full disk, a
// reader that is gone).
int CloseOutput(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  std::fprintf(stderr, "strop: error: standard output cannot be written\n");
  return exit_code == 0 ? kExitFailure : exit_code;
}

}  // namespace

int RunProgram(int argc, char** argv) {
#ifdef SIGPIPE
  // A reader that goes away (`| head`) must not end a training run.
  std::signal(SIGPIPE, SIG_IGN);
#endif
  CLI::App app("Trains ONNX models where they run.", "strop");
  app.set_version_flag("--version", STROP_VERSION);
  app.require_subcommand(1);
  app.footer("strop VERB --help tells more of each verb.");
  int exit_code = 0;
  for (AddVerb add : kVerbs) add(app, &exit_code);
  try {
    CheckVerb(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version come this way too.
    if (error.get_exit_code() == 0) return CloseOutput(app.exit(error));
    return Fail(error.what(), kExitUsage);
  } catch (const UsageError& error) {
    return Fail(error.what(), kExitUsage);
  } catch (const std::bad_alloc&) {
    return Fail("the machine has no memory left", kExitFailure);
  } catch (const std::exception& error) {
    return Fail(error.what(), kExitFailure);
  }
  return CloseOutput(exit_code);
}

}  // namespace strop
