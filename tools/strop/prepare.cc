// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/path_text.h"
#include "prepare_options.h"
#include "progress.h"
#include "strop/environment.h"
#include "usage.h"
#include "verbs.h"
#include "write_guard.h"

namespace strop {
namespace {

struct Arguments {
  std::filesystem::path model, output;
  PrepareOptions options;
  bool nominal = false;
};

int RunPrepare(const Arguments& arguments) {
  Progress progress;
  const Environment environment(
      {.num_threads = 1, .log = progress.log_sink(), .files = nullptr});
  ArtifactOptions options = ToArtifactOptions(arguments.options);
  options.nominal_checkpoint = arguments.nominal;
  WriteGuard guard;
  guard.Protect(arguments.model);
  guard.Protect(arguments.options.loss_model);
  guard.AllowFolder(arguments.output);
  for (const char* name :
       {"training_model.onnx", "eval_model.onnx", "optimizer_model.onnx",
        "checkpoint", "nominal_checkpoint"})
    guard.Check("-o", arguments.output / name);
  const ArtifactReport report = GenerateArtifacts(
      arguments.model, options, arguments.output, environment);
  fmt::print("wrote {}: {}\n", PathText(arguments.output),
             fmt::join(report.files, ", "));
  fmt::print("loss: {}\ninputs: {}\noutputs: {}\n", report.loss_name,
             fmt::join(report.user_inputs, ", "),
             fmt::join(report.user_outputs, ", "));
  fmt::print("trains {} parameters: {}\n", report.trainable.size(),
             fmt::join(report.trainable, ", "));
  if (!report.trained_inputs.empty()) {
    fmt::print("puts out the gradients of inputs: {}\n",
               fmt::join(report.trained_inputs, ", "));
  }
  if (!report.frozen.empty()) {
    fmt::print("keeps {} as they are: {}\n", report.frozen.size(),
               fmt::join(report.frozen, ", "));
  }
  for (const std::string& note : report.notes) fmt::print("note: {}\n", note);
  return 0;
}

}  // namespace

void AddPrepareVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "prepare", "Make the artifacts that train a model from its .onnx file");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("MODEL", arguments->model, "A model for inference")
      ->check(CheckNotEmpty)
      ->required();
  AddPrepareOptions(*verb, arguments->options);
  verb->add_option("-o,--output", arguments->output,
                   "Folder for the artifacts; it is made if it is not there")
      ->check(CheckNotEmpty)
      ->required();
  verb->add_flag("--nominal", arguments->nominal,
                 "Write nominal_checkpoint too: names without values");
  verb->footer(
      "Without a loss the model's first output is the loss.\n"
      "Example:\n"
      "  strop prepare lenet.onnx --loss cross_entropy --train 'fc*' -o lenet");
  verb->callback(
      [arguments, exit_code] { *exit_code = RunPrepare(*arguments); });
}

}  // namespace strop
