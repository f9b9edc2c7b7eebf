//! The files to begin a cipher with: a library, a reference in Python that makes its vectors, a Makefile, a manifest.
//!
//! What enters: a name, a language, a kind. What leaves: names and texts of files; whoever calls writes them. The cipher
//! in them is a placeholder, and two places are marked: one in the library and one in the reference. As the files come,
//! the two disagree, and the checks fail.

use std::path::PathBuf;

use crypto::custom::{CustomDescription, DescriptionError, Primitive};

/// The language of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// The language C, as of C11.
    C,
    /// The language C++, as of C++17.
    Cpp,
    /// Rust without its standard library.
    Rust,
}

/// What a cipher supplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Blocks of 16 octets, each encrypted for itself.
    Block,
    /// A key stream for each nonce.
    Stream,
    /// Encryption with a tag.
    Aead,
}

/// The cipher that is begun.
#[derive(Clone, Debug)]
pub struct Skeleton {
    /// The name of the cipher, `[a-z][a-z0-9]{1,15}`, that of no standard one.
    pub name: String,
    /// The language of the library.
    pub language: Language,
    /// What the cipher supplies.
    pub kind: Kind,
}

/// A file of a cipher that is begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkeletonFile {
    /// The path in the folder of the cipher.
    pub path: PathBuf,
    /// The whole text of it.
    pub text: String,
}

/// The reason why nothing can be begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SkeletonError(#[from] DescriptionError);

const HEADER: &str = include_str!("../../../include/ravelin_cipher.h");

/// The flags of the compilers, as in the Makefile.
const FLAGS_C: &str = "COMPILE := -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wpedantic
LINK := -shared -nostartfiles -Wl,-z,now,-z,noexecstack,-z,relro,-z,text -Wl,--as-needed
";
const FLAGS_CPP: &str = "COMPILE := -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wpedantic
# C++ without its library and what needs it.
COMPILE += -fno-exceptions -fno-rtti -fno-threadsafe-statics
LINK := -shared -nostartfiles -Wl,-z,now,-z,noexecstack,-z,relro,-z,text -Wl,--as-needed
";
const FLAGS_RUST: &str = "RUST := -C link-arg=-nostartfiles -C link-arg=-Wl,-z,text -C strip=symbols
RUST += --remap-path-prefix=$(CURDIR)=@NAME@
";
const RULE_C: &str = "@NAME@.so: @NAME@.c ravelin_cipher.h Makefile
	$(CC) -std=c11 $(COMPILE) $(LINK) -o $@ $<
";
const RULE_CPP: &str = "@NAME@.so: @NAME@.cpp ravelin_cipher.h Makefile
	$(CXX) -std=c++17 $(COMPILE) -c -o @NAME@.o $<
	$(CC) $(LINK) -o $@ @NAME@.o
	rm @NAME@.o
";
const RULE_RUST: &str = "@NAME@.so: src/lib.rs src/abi.rs src/cipher.rs Cargo.toml Makefile
	RUSTFLAGS='$(RUST)' $(CARGO) build --quiet --release --target-dir target
	cp target/release/lib@NAME@.so $@
";

impl Skeleton {
    /// The files, in the order in which somebody new reads them.
    ///
    /// # Errors
    /// [`SkeletonError`]: the name cannot be that of a cipher.
    pub fn files(&self) -> Result<Vec<SkeletonFile>, SkeletonError> {
        self.description().check()?;
        let mut files = self.library();
        let reference = match self.kind {
            Kind::Block => vec![include_str!("skeleton/block.py")],
            Kind::Stream => vec![include_str!("skeleton/keystream.py"), include_str!("skeleton/stream.py")],
            Kind::Aead => vec![include_str!("skeleton/keystream.py"), include_str!("skeleton/aead.py")],
        };
        let parts =
            [vec![include_str!("skeleton/core.py")], reference, vec![include_str!("skeleton/main.py")]];
        files.push(("reference.py".to_owned(), parts.concat().concat()));
        files.push(("about.json".to_owned(), include_str!("skeleton/about.json").to_owned()));
        files.push(("Makefile".to_owned(), self.makefile()));
        files.push(("manifest.py".to_owned(), include_str!("skeleton/manifest.py").to_owned()));
        let file = |(path, text): (String, String)| SkeletonFile { path: path.into(), text: self.fill(text) };
        Ok(files.into_iter().map(file).collect())
    }

    /// The file with the marked place of the library.
    pub fn place(&self) -> String {
        match self.language {
            Language::C => format!("{}.c", self.name),
            Language::Cpp => format!("{}.cpp", self.name),
            Language::Rust => "src/cipher.rs".to_owned(),
        }
    }

    fn description(&self) -> CustomDescription {
        CustomDescription {
            name: self.name.clone(),
            version: "0.1".to_owned(),
            vendor: "nobody yet".to_owned(),
            primitive: match self.kind {
                Kind::Block => Primitive::Block { block_len: 16 },
                Kind::Stream => Primitive::Stream,
                Kind::Aead => Primitive::Aead { tag_len: 16 },
            },
            key_len: 32,
            max_octets: None,
        }
    }

    fn library(&self) -> Vec<(String, String)> {
        match self.language {
            Language::C | Language::Cpp => {
                let kind = match self.kind {
                    Kind::Block => vec![include_str!("skeleton/block.c")],
                    Kind::Stream => vec![include_str!("skeleton/keystream.c")],
                    Kind::Aead => vec![include_str!("skeleton/keystream.c"), include_str!("skeleton/aead.c")],
                };
                let core = vec![include_str!("skeleton/core.c")];
                let source = [core, kind, vec![include_str!("skeleton/description.c")]].concat().concat();
                vec![(self.place(), source), ("ravelin_cipher.h".to_owned(), HEADER.to_owned())]
            }
            Language::Rust => {
                let (cipher, abi) = match self.kind {
                    Kind::Block => (
                        vec![include_str!("skeleton/block.rs.txt")],
                        vec![include_str!("skeleton/abi_block.rs.txt")],
                    ),
                    Kind::Stream => (
                        vec![include_str!("skeleton/keystream.rs.txt"), "}\n"],
                        vec![
                            include_str!("skeleton/abi_keystream.rs.txt"),
                            include_str!("skeleton/abi_stream.rs.txt"),
                        ],
                    ),
                    Kind::Aead => (
                        vec![
                            include_str!("skeleton/keystream.rs.txt"),
                            include_str!("skeleton/aead.rs.txt"),
                            "}\n",
                        ],
                        vec![
                            include_str!("skeleton/abi_keystream.rs.txt"),
                            include_str!("skeleton/abi_aead.rs.txt"),
                        ],
                    ),
                };
                let joined =
                    |front: &'static str, rest: Vec<&'static str>| [vec![front], rest].concat().concat();
                vec![
                    (self.place(), joined(include_str!("skeleton/cipher.rs.txt"), cipher)),
                    ("src/abi.rs".to_owned(), joined(include_str!("skeleton/abi.rs.txt"), abi)),
                    ("src/lib.rs".to_owned(), include_str!("skeleton/lib.rs.txt").to_owned()),
                    ("Cargo.toml".to_owned(), include_str!("skeleton/Cargo.toml.txt").to_owned()),
                ]
            }
        }
    }

    fn makefile(&self) -> String {
        let (variables, flags, rule) = match self.language {
            Language::C => ("CC ?= cc\n", FLAGS_C, RULE_C),
            Language::Cpp => ("CC ?= cc\nCXX ?= c++\n", FLAGS_CPP, RULE_CPP),
            Language::Rust => ("CARGO ?= cargo\n", FLAGS_RUST, RULE_RUST),
        };
        let text = include_str!("skeleton/Makefile");
        text.replace("@VARIABLES@\n", &format!("{variables}\n"))
            .replace("@FLAGS@\n", &format!("{flags}\n"))
            .replace("@RULE@", rule)
    }

    /// Put in what depends on name and kind.
    fn fill(&self, text: String) -> String {
        let rust = self.language == Language::Rust;
        let function = |name: &str, there: bool| match (rust, there) {
            (true, true) => format!("Some({name})"),
            (true, false) => "None".to_owned(),
            (false, true) => name.to_owned(),
            (false, false) => "NULL".to_owned(),
        };
        let (block, stream, aead) =
            (self.kind == Kind::Block, self.kind == Kind::Stream, self.kind == Kind::Aead);
        let (word, number, constant) = match self.kind {
            Kind::Block => ("block", "1", "RAVELIN_CIPHER_BLOCK"),
            Kind::Stream => ("stream", "2", "RAVELIN_CIPHER_STREAM"),
            Kind::Aead => ("aead", "3", "RAVELIN_CIPHER_AEAD"),
        };
        let open = if rust { "open" } else { "open_sealed" };
        text.replace("@NAME@", &self.name)
            .replace("@WORD@", word)
            .replace("@KIND@", if rust { number } else { constant })
            .replace("@BLOCK@", if block { "16" } else { "0" })
            .replace("@NONCE@", if block { "0" } else { "12" })
            .replace("@TAG@", if aead { "16" } else { "0" })
            .replace("@BAD_TAG@\n", if aead { "const BAD_TAG: i32 = -3;\n" } else { "" })
            .replace("@ENCRYPT@", &function("encrypt_blocks", block))
            .replace("@DECRYPT@", &function("decrypt_blocks", block))
            .replace("@XOR_AT@", &function("xor_at", stream))
            .replace("@SEAL@", &function("seal", aead))
            .replace("@OPEN@", &function(open, aead))
    }
}
