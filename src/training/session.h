// SPDX-License-Identifier: Apache-2.0
//
// What the graphs of one session have in common.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/arena.h"
#include "runtime/executor.h"
#include "runtime/profiler.h"
#include "strop/environment.h"
#include "strop/module.h"
#include "strop/session_options.h"

namespace strop {

// Options, threads, providers and memory that the graphs of a session share.
class Session {
 public:
  // Throws kInvalidArgument for options that training does not allow.
  Session(const SessionOptions& options, const Environment& environment,
          const std::vector<std::shared_ptr<ExecutionProvider>>& providers,
          std::span<const CustomOpDomain* const> custom_ops);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionOptions& options() const { return options_; }
  const Environment& environment() const { return environment_; }
  std::span<const CustomOpDomain* const> custom_ops() const {
    return custom_op_pointers_;
  }
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  ExecutorOptions executor_options() const;
  const Profiler* profiler() const { return profiler_.get(); }

 private:
  SessionOptions options_;
  const Environment& environment_;
  std::vector<std::shared_ptr<ExecutionProvider>> providers_;
  std::vector<CustomOpDomain> custom_ops_;
  std::vector<const CustomOpDomain*> custom_op_pointers_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::unique_ptr<Profiler> profiler_;
};

// Reads the model, ready to be specialized.
Model ReadModel(const ModelSource& source, const Environment& environment);

}  // namespace strop
