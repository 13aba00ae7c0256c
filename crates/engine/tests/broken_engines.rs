//! Engines that are broken on purpose, each caught by the suite.
