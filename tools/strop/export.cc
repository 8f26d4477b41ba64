// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "artifact_folder.h"
#include "base/path_text.h"
#include "base/throw.h"
#include "eval_roles.h"
#include "progress.h"
#include "strop/environment.h"
#include "strop/module.h"
#include "usage.h"
#include "verbs.h"
#include "write_guard.h"

namespace strop {
namespace {

struct ExportOptions {
  std::filesystem::path folder, checkpoint, output;
  std::vector<std::string> outputs;
};

int RunExport(const ExportOptions& options) {
  Progress progress;
  const Environment environment(
      {.num_threads = 1, .log = progress.log_sink(), .files = nullptr});
  FileSystem& files = environment.files();
  const ArtifactFolder artifacts = ArtifactFolder::Open(options.folder, files);
  if (!artifacts.eval) {
    Throw(ErrorCode::kNotFound,
          "{} has no eval_model.onnx, from which the export is made",
          PathText(options.folder));
  }
  const std::filesystem::path checkpoint =
      artifacts.CheckpointToUse(options.checkpoint, files);
  WriteGuard guard;
  guard.Protect(artifacts);
  guard.Protect(checkpoint);
  guard.Check("-o", options.output);
  CheckpointState state = CheckpointState::Load(checkpoint, environment);
  std::vector<std::string> outputs = options.outputs;
  if (outputs.empty()) {
    outputs = ReadEvalRoles(*artifacts.eval, state, files).predictions;
    if (outputs.empty()) {
      Throw(ErrorCode::kInvalidArgument,
            "{} does not show which values are its predictions; name them "
            "with --outputs",
            artifacts.eval->string());
    }
  }
  Module module(artifacts.models(), &state, {}, environment);
  module.ExportModelForInferencing(options.output, outputs);
  fmt::print("wrote {} with the values of {}; outputs: {}\n",
             PathText(options.output), PathText(checkpoint),
             fmt::join(outputs, ", "));
  return 0;
}

}  // namespace

void AddExportVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "export", "Write a model for inference with trained parameters");
  auto options = std::make_shared<ExportOptions>();
  verb->add_option("DIR", options->folder,
                   "Folder of artifacts; its trained/checkpoint is used where "
                   "there is one")
      ->required();
  verb->add_option("-o,--output", options->output, "The model to write")
      ->check(CheckNotEmpty)
      ->required();
  verb->add_option("--outputs", options->outputs,
                   "Values to put out, separated by commas (default: the eval "
                   "outputs that do not depend on a label, else the values "
                   "that feed the loss)")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--checkpoint", options->checkpoint,
                   "Take the parameters from this checkpoint")
      ->check(CheckNotEmpty);
  verb->footer(
      "Example:\n"
      "  strop export lenet -o model.onnx --outputs logits");
  verb->callback([options, exit_code] { *exit_code = RunExport(*options); });
}

}  // namespace strop
