//! The graphs that come with the product, each in the short form.

/// The presets with their texts.
pub const PRESETS: &[(&str, &str)] = &[
    ("fifo", include_str!("preset/fifo.toml")),
    ("two-classes", include_str!("preset/two-classes.toml")),
    ("voice", include_str!("preset/voice.toml")),
    ("fair", include_str!("preset/fair.toml")),
    ("edge", include_str!("preset/edge.toml")),
];

/// The text of a preset, in the short form.
pub fn text(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
