// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "artifact_folder.h"
#include "base/path_text.h"
#include "base/throw.h"
#include "data/arrays.h"
#include "example_inputs.h"
#include "inspect_report.h"
#include "progress.h"
#include "strop/environment.h"
#include "strop/module.h"
#include "training/inference.h"
#include "usage.h"
#include "verbs.h"
#include "whole_number.h"
#include "write_guard.h"

namespace strop {
namespace {

struct InspectOptions {
  std::filesystem::path source, checkpoint, dump;
  bool plan = false;
  bool json = false;
  ExampleShapes shapes;
  int threads = 0;
};

std::vector<Tensor> Views(const std::vector<OwnedTensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

Module::PlanFormat Format(const InspectOptions& options) {
  return options.json ? Module::PlanFormat::kJson : Module::PlanFormat::kText;
}

// Plans by name, as text or JSON.
std::vector<std::pair<std::string, std::string>> Plans(
    const InspectOptions& options, const Environment& environment) {
  SessionOptions session;
  session.num_threads = options.threads;
  FileSystem& files = environment.files();
  if (!files.IsDirectory(options.source)) {
    Inference inference(options.source, session, environment);
    const auto inputs = ExampleInputs(inference.inputs(), options.shapes);
    return {
        {"inference", inference.DescribePlan(Views(inputs), Format(options))}};
  }
  const ArtifactFolder artifacts = ArtifactFolder::Open(options.source, files);
  CheckpointState state = CheckpointState::Load(
      artifacts.CheckpointToUse(options.checkpoint, files), environment);
  Module module(artifacts.models(), &state, session, environment);
  std::vector<std::pair<std::string, std::string>> plans;
  const auto train = ExampleInputs(module.TrainingInputs(), options.shapes);
  plans.emplace_back(
      "train",
      module.DescribePlan(/*training=*/true, Views(train), Format(options)));
  if (artifacts.eval) {
    const auto eval = ExampleInputs(module.EvalInputs(), options.shapes);
    plans.emplace_back(
        "eval",
        module.DescribePlan(/*training=*/false, Views(eval), Format(options)));
  }
  return plans;
}

void CheckOptions(const InspectOptions& options, FileSystem& files) {
  if (!options.shapes.given.empty() && !options.plan) {
    ThrowUsage("--shape goes with --plan");
  }
  WriteGuard guard;
  guard.Protect(options.source);
  guard.Protect(options.checkpoint);
  if (files.IsDirectory(options.source)) {
    for (const auto& entry :
         std::filesystem::directory_iterator(options.source)) {
      guard.Protect(entry.path());
    }
  } else if (!options.checkpoint.empty()) {
    ThrowUsage("--checkpoint goes with a folder of artifacts; {} is a file",
               PathText(options.source));
  }
  guard.Check("--dump", options.dump);
}

int RunInspect(const InspectOptions& options) {
  Progress progress;
  const Environment environment({.num_threads = options.threads,
                                 .log = progress.log_sink(),
                                 .files = nullptr});
  CheckOptions(options, environment.files());
  Inspection inspection(options.source, options.checkpoint, environment);
  Json report = inspection.Report();
  if (options.plan) {
    for (const auto& [name, plan] : Plans(options, environment)) {
      if (options.json) {
        report["plan"][name] = Json::parse(plan);
      } else {
        report["plan"][name] = plan;
      }
    }
  }
  if (options.json) {
    fmt::print("{}\n",
               report.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", ReportText(report));
  }
  if (!options.dump.empty()) {
    data::WriteNpz(options.dump, inspection.Arrays(), environment.files());
  }
  return 0;
}

}  // namespace

void AddInspectVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "inspect", "Tell what is in a model, a checkpoint or a folder of both");
  auto options = std::make_shared<InspectOptions>();
  verb->add_option("FILE|DIR", options->source,
                   "An ONNX model, a checkpoint or a folder of artifacts; "
                   "files are told apart by content")
      ->required();
  verb->add_flag("--plan", options->plan,
                 "Show the steps that run: kernels, why others declined, "
                 "layouts, memory");
  AddExampleShapes(*verb, &options->shapes);
  verb->add_flag("--json", options->json, "Print JSON");
  verb->add_option("--dump", options->dump,
                   "Write parameters, moments or initializers to this .npz")
      ->check(CheckNotEmpty);
  verb->add_option("--checkpoint", options->checkpoint,
                   "Use this checkpoint of the folder's model")
      ->check(CheckNotEmpty);
  verb->add_option("--threads", options->threads,
                   "Threads of the plan (default: one per core)")
      ->check(WholeNumber(0, kMostThreads));
  verb->footer(
      "Example:\n"
      "  strop inspect lenet --plan --batch-size 64");
  verb->callback([options, exit_code] { *exit_code = RunInspect(*options); });
}

}  // namespace strop
