//! The pages of the manual that are written by hand.

/// A page that is written by hand.
pub struct Page {
    /// The file below docs/.
    pub file: &'static str,
    /// The name of the page.
    pub name: &'static str,
    /// The section of the manual.
    pub section: u8,
}

const fn page(file: &'static str, name: &'static str, section: u8) -> Page {
    Page { file, name, section }
}

/// Every page that is written by hand. What is only of use to who builds or measures is not among them.
pub const PAGES: [Page; 20] = [
    page("man/ravelin.1.md", "ravelin", 1),
    page("man/ravelin-policy.5.md", "ravelin-policy", 5),
    page("man/ravelin-qos.5.md", "ravelin-qos", 5),
    page("capture.md", "ravelin-capture", 7),
    page("editor.md", "ravelin-editor", 7),
    page("enc.md", "ravelin-enc", 7),
    page("features.md", "ravelin-features", 7),
    page("firewall.md", "ravelin-firewall", 7),
    page("gateway.md", "ravelin-gateway", 7),
    page("inline.md", "ravelin-inline", 7),
    page("install.md", "ravelin-install", 7),
    page("pmtu.md", "ravelin-pmtu", 7),
    page("programs.md", "ravelin-programs", 7),
    page("qos.md", "ravelin-qos", 7),
    page("recipes.md", "ravelin-recipes", 7),
    page("replay.md", "ravelin-replay", 7),
    page("scrub.md", "ravelin-scrub", 7),
    page("scrubbed-flows.md", "ravelin-scrubbed", 7),
    page("socket-api.md", "ravelin-socket", 7),
    page("troubleshooting.md", "ravelin-troubleshooting", 7),
];
