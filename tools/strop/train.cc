// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>

#include "training_run.h"
#include "usage.h"
#include "verbs.h"
#include "whole_number.h"

namespace strop {
namespace {

// Not NaN, infinite or negative.
std::string CheckRate(const std::string& text) {
  float rate = -1;
  if (CLI::detail::lexical_cast(text, rate) && rate >= 0 &&
      std::isfinite(rate)) {
    return {};
  }
  return "wanted a number of 0 or more, got \"" + text + "\"";
}

struct Arguments {
  TrainOptions options;
  bool shuffle = true;
};

void AddDataOptions(CLI::App& verb, TrainOptions& options) {
  verb.add_option("DIR", options.folder,
                  "Folder with training_model.onnx, optimizer_model.onnx, "
                  "checkpoint and, if there is one, eval_model.onnx; or a "
                  "model for inference, with --loss")
      ->check(CheckNotEmpty)
      ->required();
  verb.add_option("--input", options.data.inputs,
                  "Samples for an input of the model (.npy, "
                  ".npz[:key], IDX, IDX.gz, CSV; a row is a sample)")
      ->type_name("NAME=FILE")
      ->required()
      ->allow_extra_args(false);
  verb.add_option("--scale", options.data.scales,
                  "Multiply the samples of an input, e.g. by 1/255")
      ->type_name("NAME=X")
      ->allow_extra_args(false);
  verb.add_option("--validation", options.validation.inputs,
                  "Samples to evaluate after each epoch")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  verb.add_option("--batch-size", options.batch_size,
                  "Samples in a train step (default 32)")
      ->check(WholeNumber(1));
}

void AddRunOptions(CLI::App& verb, Arguments& arguments) {
  TrainOptions& options = arguments.options;
  auto* epochs = verb.add_option("--epochs", options.epochs,
                                 "Passes over the samples (default 1)")
                     ->check(WholeNumber(1));
  verb.add_option("--steps", options.steps, "Optimizer steps, not epochs")
      ->check(WholeNumber(1))
      ->excludes(epochs);
  verb.add_option("--lr", options.learning_rate,
                  "Learning rate (default: the checkpoint's initial rate, "
                  "else 0.001)")
      ->check(CheckRate);
  verb.add_option("--schedule", options.schedule,
                  "How the rate changes: none, or linear: up during the "
                  "warm-up, then down to 0 at the end of the run")
      ->check(CLI::IsMember({"none", "linear"}));
  verb.add_option("--warmup", options.warmup,
                  "Optimizer steps of the linear schedule's warm-up, from "
                  "the beginning of this run on")
      ->check(WholeNumber(0));
  verb.add_flag("--shuffle,!--no-shuffle", arguments.shuffle,
                "Draw the samples in a new order each epoch (default on)");
  verb.add_option("--accumulate", options.accumulate,
                  "Train steps whose gradients are summed for an optimizer "
                  "step (default 1)")
      ->check(WholeNumber(1));
  verb.add_option("--seed", options.seed,
                  "Seed of the order of samples and of dropout (default 0)")
      ->check(WholeNumber(std::numeric_limits<int64_t>::min()));
  verb.add_option("--threads", options.threads,
                  "Threads to use (default: one per core; with --resume, the "
                  "run's own number, which gives the same bits: another one "
                  "rounds differently)")
      ->check(WholeNumber(0, kMostThreads));
}

void AddFileOptions(CLI::App& verb, TrainOptions& options) {
  verb.add_option("--output", options.output,
                  "Folder for checkpoint and model.onnx (default DIR/trained)")
      ->check(CheckNotEmpty);
  auto* resume = verb.add_flag(
      "--resume", options.resume,
      "Go on from the checkpoint in the output folder, bit by bit as without "
      "a break. The run's own options hold; of those, the goal, the rate, the "
      "schedule and the threads can be given anew. Data and files are named "
      "again");
  verb.add_option("--checkpoint", options.checkpoint,
                  "Start from this checkpoint (default DIR/checkpoint)")
      ->check(CheckNotEmpty)
      ->excludes(resume);
  verb.add_option("--metrics", options.metrics,
                  "Write losses and rates to this file as JSON Lines (a value "
                  "that is not finite is null). With --resume, lines of steps "
                  "after the checkpoint are replaced")
      ->check(CheckNotEmpty);
  verb.add_option("--profile", options.profile,
                  "Write the time of each kernel to this file as a Chrome "
                  "trace")
      ->check(CheckNotEmpty);
}

}  // namespace

void AddTrainVerb(CLI::App& app, int* exit_code) {
  CLI::App* verb = app.add_subcommand(
      "train", "Train a model, or that of a folder of training artifacts");
  auto arguments = std::make_shared<Arguments>();
  AddDataOptions(*verb, arguments->options);
#ifndef STROP_NO_AUTODIFF
  AddPrepareOptions(*verb, arguments->options.prepare);
#endif
  AddRunOptions(*verb, *arguments);
  AddFileOptions(*verb, arguments->options);
  verb->footer(
      "Example:\n"
      "  strop train lenet --input input=train-images.idx.gz \\\n"
      "      --input labels=train-labels.idx.gz --scale input=1/255 "
      "--epochs 5\n"
      "  strop train lenet.onnx --loss cross_entropy --input ...");
  verb->callback([verb, arguments, exit_code] {
    TrainOptions& options = arguments->options;
    if (verb->count("--shuffle") > 0) options.shuffle = arguments->shuffle;
    *exit_code = Train(options);
  });
}

}  // namespace strop
