//! A small static-graph tensor engine.
