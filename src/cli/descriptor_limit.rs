//! Warns where a process of this machine cannot have the file descriptors that the configuration needs.

use std::path::Path;

use crate::adapters::machine::FileLimits;
use crate::base::finding::Finding;
use crate::config::Config;
use crate::serve::descriptors;

pub(super) fn too_few_descriptors(config: &Config, file: &Path) -> Option<Finding> {
    descriptors::too_few_descriptors(config, &file.display().to_string(), FileLimits::of_process())
}
