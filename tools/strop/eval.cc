// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "artifact_folder.h"
#include "base/path_text.h"
#include "base/throw.h"
#include "data/arrays.h"
#include "dataset.h"
#include "eval_roles.h"
#include "evaluation.h"
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

struct EvalOptions {
  std::filesystem::path source;  // a folder of artifacts or a model
  std::filesystem::path checkpoint, dump;
  DataOptions data;
  std::string labels;
  bool per_class = false;
  std::optional<int64_t> batch_size;
  int threads = 0;
};

void PrintEvaluation(const Evaluation& evaluation, const EvalOptions& options) {
  fmt::print("samples {}\n", evaluation.rows);
  if (evaluation.dropped_rows > 0) {
    fmt::print(
        "note: the model fixes the batch size, so that the last {} samples "
        "are left out\n",
        evaluation.dropped_rows);
  }
  for (const auto& [name, value] : evaluation.means) {
    fmt::print("{} {:.6g}\n", name, value);
  }
  if (!evaluation.accuracy) return;
  const Accuracy& accuracy = *evaluation.accuracy;
  fmt::print("accuracy {:.2f} % ({} of {}, largest of \"{}\")\n",
             100 * accuracy.value(), accuracy.correct(), accuracy.rows(),
             accuracy.output);
  if (!options.per_class) return;
  for (size_t i = 0; i < accuracy.classes.size(); ++i) {
    const ClassCount& count = accuracy.classes[i];
    if (count.rows == 0) continue;
    fmt::print("  class {}: {:.2f} % ({} of {})\n", i,
               100.0 * static_cast<double>(count.correct) /
                   static_cast<double>(count.rows),
               count.correct, count.rows);
  }
}

void Report(const Evaluation& evaluation, const EvalOptions& options,
            FileSystem& files) {
  PrintEvaluation(evaluation, options);
  if ((options.per_class || !options.labels.empty()) && !evaluation.accuracy) {
    Throw(ErrorCode::kInvalidArgument,
          "no accuracy: wanted class labels and exactly one output with a row "
          "of scores for each sample, with a score for each label");
  }
  if (options.dump.empty()) return;
  for (const std::string& name : evaluation.other_outputs) {
    fmt::print("note: output \"{}\" has no row per sample: not dumped\n", name);
  }
  std::map<std::string, Tensor> arrays;
  for (const auto& [name, array] : evaluation.arrays) {
    arrays[name] = array.view();
  }
  // Means go with them, so that the file is the whole result.
  std::vector<double> means;
  means.reserve(evaluation.means.size());
  for (const auto& [name, value] : evaluation.means) {
    means.push_back(value);
    arrays[name] = Tensor(Shape{}, &means.back());
  }
  data::WriteNpz(options.dump, arrays, files);
  fmt::print("wrote {}\n", PathText(options.dump));
}

EvaluationOptions MakeEvaluationOptions(const EvalOptions& options,
                                        const Dataset& data,
                                        FileSystem& files) {
  EvaluationOptions result;
  result.batch_size = ResolveBatchSize(data, options.batch_size);
  result.keep_arrays = !options.dump.empty();
  if (!options.labels.empty()) {
    result.labels = ReadLabels(options.labels, files);
  }
  return result;
}

// --dump overwrites nothing that is read. `artifacts` is null for a model.
void CheckDump(const EvalOptions& options, const ArtifactFolder* artifacts) {
  WriteGuard guard;
  if (artifacts != nullptr) {
    guard.Protect(*artifacts);
    guard.Protect(artifacts->trained() / kCheckpointName);
  } else {
    guard.Protect(options.source);
  }
  guard.Protect(options.checkpoint);
  guard.Protect(options.data);
  guard.Protect(std::filesystem::path(options.labels));
  guard.Check("--dump", options.dump);
}

void EvaluateFolder(const EvalOptions& options, const SessionOptions& session,
                    const Environment& environment) {
  FileSystem& files = environment.files();
  const ArtifactFolder artifacts = ArtifactFolder::Open(options.source, files);
  CheckDump(options, &artifacts);
  if (!artifacts.eval) {
    Throw(ErrorCode::kNoSuchFile, "{} has no eval_model.onnx",
          PathText(options.source));
  }
  const std::filesystem::path checkpoint =
      artifacts.CheckpointToUse(options.checkpoint, files);
  CheckpointState state = CheckpointState::Load(checkpoint, environment);
  Module module(artifacts.models(), &state, session, environment);
  const Dataset data(options.data, module.EvalInputs(), files);
  EvaluationOptions evaluation = MakeEvaluationOptions(options, data, files);
  if (options.labels.empty()) {
    evaluation.labels =
        LabelsOf(ReadEvalRoles(*artifacts.eval, state, files), data);
  }
  fmt::print("checkpoint {}\n", PathText(checkpoint));
  Report(Evaluate(
             data, module.EvalOutputNames(),
             [&](std::span<const Tensor> inputs,
                 std::vector<OwnedTensor>* outputs) {
               module.EvalStep(inputs, outputs);
             },
             evaluation),
         options, files);
}

void EvaluateModel(const EvalOptions& options, const SessionOptions& session,
                   const Environment& environment) {
  FileSystem& files = environment.files();
  CheckDump(options, nullptr);
  if (!options.checkpoint.empty()) {
    ThrowUsage("--checkpoint goes with a folder of artifacts; {} is a model",
               PathText(options.source));
  }
  Inference inference(options.source, session, environment);
  const Dataset data(options.data, inference.inputs(), files);
  Report(Evaluate(
             data, inference.output_names(),
             [&](std::span<const Tensor> inputs,
                 std::vector<OwnedTensor>* outputs) {
               inference.Run(inputs, outputs);
             },
             MakeEvaluationOptions(options, data, files)),
         options, files);
}

int RunEval(const EvalOptions& options) {
  Progress progress;
  const Environment environment({.num_threads = options.threads,
                                 .log = progress.log_sink(),
                                 .files = nullptr});
  SessionOptions session;
  session.num_threads = options.threads;
  if (environment.files().IsDirectory(options.source)) {
    EvaluateFolder(options, session, environment);
  } else {
    EvaluateModel(options, session, environment);
  }
  return 0;
}

}  // namespace

void AddEvalVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "eval", "Evaluate a folder of training artifacts or a plain model");
  auto options = std::make_shared<EvalOptions>();
  verb->add_option("DIR|FILE", options->source,
                   "Folder of artifacts (its trained/checkpoint is used where "
                   "there is one), or an ONNX model")
      ->required();
  verb->add_option("--input", options->data.inputs,
                   "Samples for an input (.npy, .npz[:key], IDX, IDX.gz, CSV; "
                   "a row is a sample)")
      ->type_name("NAME=FILE")
      ->required()
      ->allow_extra_args(false);
  verb->add_option("--scale", options->data.scales,
                   "Multiply the samples of an input, e.g. by 1/255")
      ->type_name("NAME=X")
      ->allow_extra_args(false);
  verb->add_option("--labels", options->labels,
                   "Class of each sample, for the accuracy of a plain model");
  verb->add_flag("--per-class", options->per_class,
                 "Print the accuracy of each class too");
  verb->add_option("--batch-size", options->batch_size,
                   "Samples in a step (default 32)")
      ->check(WholeNumber(1));
  verb->add_option("--checkpoint", options->checkpoint,
                   "Use this checkpoint of the folder's model")
      ->check(CheckNotEmpty);
  verb->add_option("--dump", options->dump,
                   "Write the outputs for all samples to this .npz file")
      ->check(CheckNotEmpty);
  verb->add_option("--threads", options->threads,
                   "Threads to use (default: one per core)")
      ->check(WholeNumber(0, kMostThreads));
  verb->footer(
      "Example:\n"
      "  strop eval lenet/trained/model.onnx --input input=t10k.idx.gz \\\n"
      "      --scale input=1/255 --labels t10k-labels.idx.gz --per-class");
  verb->callback([options, exit_code] { *exit_code = RunEval(*options); });
}

}  // namespace strop
