#pragma once
// ShadowSync: synchronisation in the background, never in the training loop.
//   Zheng et al., "ShadowSync: performing synchronization in the background for highly scalable
//   distributed training", arXiv 2003.03477 (v3).
//
// It hosts several algorithms, each in its own file: the mean of all and its filtered form
// (shadow/mean_trainer.h).
#include "longhaul/core/registry.h"
#include "longhaul/sync/shadow/config.h"

namespace longhaul::sync {

struct ShadowSync {
  using Config = ShadowConfig;
  static SyncEntry entry();
};

}  // namespace longhaul::sync
