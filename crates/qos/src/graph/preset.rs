//! The graphs that come with the product, each in the short form.

/// The presets with their texts.
pub const PRESETS: &[(&str, &str)] = &[
    ("fifo", include_str!("preset/fifo.toml")),
    ("two-classes", include_str!("preset/two-classes.toml")),
    ("voice", include_str!("preset/voice.toml")),
    ("fair", include_str!("preset/fair.toml")),
    ("edge", include_str!("preset/edge.toml")),
];

/// The presets with what each is for, in one line.
const PURPOSES: &[(&str, &str)] = &[
    (
        "fifo",
        "one queue for every packet, in the order of arrival: what there is without classes, to compare with",
    ),
    ("two-classes", "EF and everything else, by turns, at three queues: Figure 6 of paper 002"),
    ("voice", "control and policed EF go first, then AF4 and the rest by weight; long queues are kept short"),
    ("fair", "every association has the same share of the processor, whatever its cipher costs"),
    (
        "edge",
        "a shaped uplink, with a rate for each tunnel and classes inside; write [uplink] and [tunnel] beside it",
    ),
];

/// What a preset is for, in one line.
pub fn purpose(name: &str) -> Option<&'static str> {
    PURPOSES.iter().find(|(known, _)| *known == name).map(|(_, purpose)| *purpose)
}

/// The text of a preset, in the short form.
pub fn text(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
