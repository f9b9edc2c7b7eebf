//! `ravelin cipher new`: the files to begin a cipher with.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cipher_kit::{Kind, Language, Skeleton, SkeletonFile};
use clap::{Args, ValueEnum};

use crate::exit::{Failure, Kind as Status};

/// Begin a cipher: a library, a reference in Python that makes its vectors, a Makefile, and what the manifest says.
///
/// The cipher in the files is a placeholder that protects nothing. Two places are marked, one in the library and one in the
/// reference; `ravelin cipher check` fails until both compute the same. Nothing that is there is changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ravelin cipher new mycipher --lang c
  ravelin cipher new mystream --lang rust --kind stream --dir work")]
pub struct New {
    /// The name of the cipher: 2 to 16 small letters and digits, a letter first, and the name of no standard cipher.
    name: String,
    /// The language of the library.
    #[arg(long)]
    lang: Lang,
    /// What the cipher supplies: blocks of 16 octets, a key stream, or encryption with a tag.
    #[arg(long, value_name = "KIND", default_value = "block")]
    kind: Primitive,
    /// Folder to write into, which may be there; without it a new folder of the cipher's name.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lang {
    C,
    Cpp,
    Rust,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Primitive {
    Block,
    Stream,
    Aead,
}

impl New {
    pub fn execute(self) -> anyhow::Result<()> {
        let skeleton = Skeleton {
            language: match self.lang {
                Lang::C => Language::C,
                Lang::Cpp => Language::Cpp,
                Lang::Rust => Language::Rust,
            },
            kind: match self.kind {
                Primitive::Block => Kind::Block,
                Primitive::Stream => Kind::Stream,
                Primitive::Aead => Kind::Aead,
            },
            name: self.name,
        };
        let files = skeleton.files().map_err(|error| Failure::bad_input(error.to_string()))?;
        let folder = self.dir.unwrap_or_else(|| PathBuf::from(&skeleton.name));
        let there =
            files.iter().map(|file| folder.join(&file.path)).find(|path| path.symlink_metadata().is_ok());
        if let Some(there) = there {
            let text = format!("{} is there already, and nothing is written over", there.display());
            return Err(Failure::with_remedy(Status::Failed, text, "name another folder with --dir"));
        }
        for file in &files {
            put(&folder, file)?;
        }
        let (name, place, shown) = (&skeleton.name, skeleton.place(), folder.display());
        println!(
            "\nnext:\n  write the cipher where {shown}/{place} says PLACE 1 OF 2\n  \
             write it a second time where {shown}/reference.py says PLACE 2 OF 2\n  \
             make -C {shown}\n  ravelin cipher check {shown}/{name}.json"
        );
        Ok(())
    }
}

fn put(folder: &Path, file: &SkeletonFile) -> anyhow::Result<()> {
    let path = folder.join(&file.path);
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).with_context(|| format!("making the folder {}", above.display()))?;
    }
    let opened = fs::OpenOptions::new().write(true).create_new(true).open(&path);
    let written = opened.and_then(|mut to| to.write_all(file.text.as_bytes()));
    written.with_context(|| format!("writing {}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}
