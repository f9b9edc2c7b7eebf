//! The rules for a library that need none of its code: what it is linked with, and which memory it asks for.
//!
//! The dynamic table is read as the dynamic loader reads it, by segments and not by sections. A file that is damaged is
//! refused; nothing in it can make the reader fail in another way.

use std::ffi::CStr;

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, Sym as _};
use object::{Endianness, ReadRef as _};

/// The rule that a library breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// The file is no ELF file of 64 bits, or it is damaged.
    #[error("it is no sound ELF file: {0}")]
    Damaged(&'static str),
    /// The file was built for another processor.
    #[error("it was built for another processor (machine {0})")]
    Machine(u16),
    /// The file is a program or an object.
    #[error("it is no shared library (type {0})")]
    Kind(u16),
    /// The file asks for a program loader, as programs do.
    #[error("it has a program loader (PT_INTERP)")]
    Interpreter,
    /// The file needs another library.
    #[error("it is linked with {0}")]
    Needed(String),
    /// The file has the dynamic loader search for libraries.
    #[error("it has a search path for libraries (RPATH or RUNPATH)")]
    SearchPath,
    /// The file has code that the dynamic loader would write to.
    #[error("it has text relocations")]
    TextRelocations,
    /// The file asks for a stack that can be executed, or does not say that it needs none.
    #[error("it asks for an executable stack (PT_GNU_STACK)")]
    ExecutableStack,
    /// The file has memory that can be written and executed.
    #[error("it has a segment that is both written and executed")]
    WritableCode,
    /// The file does not export the one symbol.
    #[error("it does not export the function {0}")]
    Symbol(&'static str),
}

impl ElfError {
    /// What the author of the library can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            ElfError::Damaged(_) => "build the library again; it must be one that the linker made",
            ElfError::Machine(_) => "build the library on or for this processor",
            ElfError::Kind(_) | ElfError::Interpreter => "link with -shared",
            ElfError::Needed(_) => {
                "link what it needs into the library; only libc, libm and libgcc_s may be outside"
            }
            ElfError::SearchPath => "link without -rpath",
            ElfError::TextRelocations => "compile with -fPIC, and link with -z text",
            ElfError::ExecutableStack => {
                "link with -z noexecstack, and give each assembler file a .note.GNU-stack"
            }
            ElfError::WritableCode => {
                "link without -N and without sections that are both written and executed"
            }
            ElfError::Symbol(_) => {
                "define it with the macro of the header whose name ends in EXPORT and, in C++, extern \"C\""
            }
        }
    }
}

/// The one symbol that the library of a cipher exports.
pub(crate) const SYMBOL: &CStr = c"ravelin_cipher_v1";

/// The libraries that may stay outside: those that this program has itself.
pub(crate) const OUTSIDE: &[&str] =
    &["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];

/// Entries by which a library loads others beside DT_NEEDED (elf/dl-deps.c and rtld-audit(7) of the GNU C library).
const LOADING: [elf::DynamicTag; 4] = [elf::DT_FILTER, elf::DT_AUXILIARY, elf::DT_AUDIT, elf::DT_DEPAUDIT];

/// The machine of this program.
const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
/// Entries of a dynamic table; linkers write about thirty.
const MOST_ENTRIES: usize = 4096;
/// Octets of the smallest page of the machines that are known here.
const PAGE: u64 = 4096;
/// Octets of a library's name that a message repeats.
const LONGEST_NAME: usize = 80;

type Header = FileHeader64<Endianness>;
type Segment = elf::ProgramHeader64<Endianness>;

/// The number of program headers that a library may have.
const MOST_SEGMENTS: u16 = 64;

/// The places that a library writes, in octets from the first that is mapped of it: initialised data, and what begins as
/// zeros. They are in order. Only for a file that [`check`] has passed.
pub(crate) fn written(octets: &[u8]) -> Vec<std::ops::Range<u64>> {
    let read = || {
        let header = FileHeader64::<Endianness>::parse(octets).ok()?;
        let endian = header.endian().ok()?;
        let loads = header.program_headers(endian, octets).ok()?.iter();
        let loads = loads.filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
        let first = loads.clone().map(|segment| segment.p_vaddr(endian)).min()?;
        let written = loads.filter(|segment| segment.p_flags(endian).contains(elf::PF_W)).map(|segment| {
            let start = segment.p_vaddr(endian).saturating_sub(first);
            start..start.saturating_add(segment.p_memsz(endian))
        });
        Some(written.collect())
    };
    read().unwrap_or_default()
}

/// The libraries outside that the octets of a library name, which must export the symbol.
///
/// # Errors
/// [`ElfError`]: the first rule that is broken.
pub(crate) fn check(octets: &[u8], symbol: &'static CStr) -> Result<Vec<&'static str>, ElfError> {
    let header = Header::parse(octets).map_err(|_| ElfError::Damaged("its header is none"))?;
    let endian = header.endian().map_err(|_| ElfError::Damaged("its byte order is none"))?;
    if header.e_machine(endian) != MACHINE {
        return Err(ElfError::Machine(header.e_machine(endian).0));
    }
    if header.e_type(endian) != elf::ET_DYN {
        return Err(ElfError::Kind(header.e_type(endian).0));
    }
    // With a number that does not fit this reader and the dynamic loader would see other headers. The loader keeps all of
    // them on its stack.
    if !(1..=MOST_SEGMENTS).contains(&header.e_phnum(endian)) {
        return Err(ElfError::Damaged("it has more program headers than a library has, or none"));
    }
    let segments = header
        .program_headers(endian, octets)
        .map_err(|_| ElfError::Damaged("its program headers lie outside of it"))?;
    let file = Image { octets, endian, segments };
    file.segments()?;
    let needed = file.dynamic()?;
    file.symbol(header, symbol)?;
    Ok(needed)
}

struct Image<'a> {
    octets: &'a [u8],
    endian: Endianness,
    segments: &'a [Segment],
}

impl<'a> Image<'a> {
    fn segments(&self) -> Result<(), ElfError> {
        let mut stack = None;
        let mut free = 0;
        for segment in self.segments {
            let flags = segment.p_flags(self.endian);
            match segment.p_type(self.endian) {
                elf::PT_INTERP => return Err(ElfError::Interpreter),
                elf::PT_GNU_STACK => stack = Some(flags),
                elf::PT_LOAD if flags.contains(elf::PF_W) && flags.contains(elf::PF_X) => {
                    return Err(ElfError::WritableCode);
                }
                elf::PT_LOAD => {
                    // Where two lie on one page the loader and this reader could see different octets.
                    let start = segment.p_vaddr(self.endian);
                    let end = start.checked_add(segment.p_memsz(self.endian));
                    let end =
                        end.and_then(|end| end.checked_next_multiple_of(PAGE)).filter(|_| start >= free);
                    free = end.ok_or(ElfError::Damaged("its segments lie one above another"))?;
                }
                _ => {}
            }
        }
        // Without the header the stack of every thread becomes executable.
        match stack {
            Some(flags) if !flags.contains(elf::PF_X) => Ok(()),
            _ => Err(ElfError::ExecutableStack),
        }
    }

    /// The octets of the file that the loader puts to this address, to the end of their segment.
    fn at(&self, address: u64) -> Option<&'a [u8]> {
        self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD).find_map(
            |segment| {
                let within = address.checked_sub(segment.p_vaddr(self.endian))?;
                let left = segment.p_filesz(self.endian).checked_sub(within).filter(|left| *left > 0)?;
                self.octets.read_bytes_at(segment.p_offset(self.endian).checked_add(within)?, left).ok()
            },
        )
    }

    fn dynamic(&self) -> Result<Vec<&'static str>, ElfError> {
        let damaged = ElfError::Damaged("its dynamic table is none");
        let mut tables =
            self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_DYNAMIC);
        let (Some(table), None) = (tables.next(), tables.next()) else { return Err(damaged) };
        let octets = self.at(table.p_vaddr(self.endian)).ok_or(damaged.clone())?;
        let count = (octets.len() / size_of::<elf::Dyn64<Endianness>>()).min(MOST_ENTRIES);
        let (entries, _) = object::slice_from_bytes::<elf::Dyn64<Endianness>>(octets, count)
            .map_err(|()| damaged.clone())?;
        let end = entries.iter().position(|entry| entry.tag(self.endian) == elf::DT_NULL).ok_or(damaged)?;
        let entries = entries.get(..end).unwrap_or_default();
        let value =
            |tag| entries.iter().rev().find(|e| e.tag(self.endian) == tag).map(|e| e.val(self.endian));
        let strings = value(elf::DT_STRTAB).and_then(|address| self.at(address));
        let mut needed = Vec::new();
        for entry in entries {
            let (tag, number) = (entry.tag(self.endian), entry.val(self.endian));
            if tag == elf::DT_RPATH || tag == elf::DT_RUNPATH {
                return Err(ElfError::SearchPath);
            }
            let flags = tag == elf::DT_FLAGS && number & elf::DF_TEXTREL.0 != 0;
            if tag == elf::DT_TEXTREL || flags {
                return Err(ElfError::TextRelocations);
            }
            if tag == elf::DT_NEEDED || LOADING.contains(&tag) {
                let name = text(strings, number).ok_or(ElfError::Damaged("a library's name is none"))?;
                match OUTSIDE.iter().find(|may| may.as_bytes() == name) {
                    Some(may) if tag == elf::DT_NEEDED => needed.push(*may),
                    _ => return Err(ElfError::Needed(shown(name))),
                }
            }
        }
        Ok(needed)
    }

    /// Whether the symbol is there, as far as sections say; the dynamic loader has the last word.
    fn symbol(&self, header: &Header, wanted: &'static CStr) -> Result<(), ElfError> {
        let damaged = |_| ElfError::Damaged("its symbols are none");
        let sections = header.sections(self.endian, self.octets).map_err(damaged)?;
        let symbols = sections.symbols(self.endian, self.octets, elf::SHT_DYNSYM).map_err(damaged)?;
        let found = symbols.iter().any(|symbol| {
            let name = symbol.name(self.endian, symbols.strings());
            !symbol.is_undefined(self.endian)
                && symbol.st_type() == elf::STT_FUNC
                && name == Ok(wanted.to_bytes())
        });
        if found || symbols.is_empty() && sections.is_empty() {
            Ok(())
        } else {
            Err(ElfError::Symbol(wanted.to_str().unwrap_or("?")))
        }
    }
}

/// The text at this place of the string table, without its NUL.
fn text(strings: Option<&[u8]>, at: u64) -> Option<&[u8]> {
    let from = strings?.get(usize::try_from(at).ok()?..)?;
    from.split(|octet| *octet == 0).next().filter(|name| name.len() < from.len())
}

/// A name for a message: short, and without what moves the cursor.
fn shown(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name.get(..LONGEST_NAME).unwrap_or(name));
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
