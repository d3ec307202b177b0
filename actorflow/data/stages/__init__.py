"""The stages of a pipeline, as small state machines over chunks."""
