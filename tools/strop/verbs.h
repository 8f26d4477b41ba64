// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the strop program. Each adds its own command to the parser;
// its callback runs the verb and sets the exit code.
#pragma once

#include <CLI/CLI.hpp>

namespace strop {

void AddTrainVerb(CLI::App& app, int* exit_code);
void AddEvalVerb(CLI::App& app, int* exit_code);
void AddExportVerb(CLI::App& app, int* exit_code);
void AddInspectVerb(CLI::App& app, int* exit_code);
void AddBenchVerb(CLI::App& app, int* exit_code);
#ifndef STROP_NO_AUTODIFF
void AddPrepareVerb(CLI::App& app, int* exit_code);
void AddCheckVerb(CLI::App& app, int* exit_code);
#endif

}  // namespace strop
