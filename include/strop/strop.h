// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "strop/checkpoint_state.h"
#include "strop/environment.h"
#include "strop/error.h"
#include "strop/execution_provider.h"
#include "strop/lr_scheduler.h"
#include "strop/module.h"
#include "strop/op.h"
#include "strop/optimizer.h"
#include "strop/platform.h"
#include "strop/random.h"
#include "strop/session_options.h"
#include "strop/tensor.h"
#include "strop/training_session.h"
