//! The modules of one crate: what each defines, imports and names.
//!
//! What enters: the root file of a crate (`lib.rs`, `main.rs`), and a way to read files. What leaves: a [`Crate`],
//! parsed by `syn`, whose modules are found as the compiler finds them (`mod x;`, `x.rs`, `x/mod.rs`, `#[path]`), and
//! whose files are read as it reads them (`include!` of a file that is in the repository). Whatever stands under `#[cfg(test)]` is left out. Paths inside of macro calls are read from their tokens, since
//! nobody but the macro knows what these mean. What a macro call defines is unknown.

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, ImplItem, Item, Lit, Meta, Token, Type, UseTree, Visibility};

/// The segments of a path, such as `["crate", "outbound", "Outcome"]`.
pub type Segments = Vec<String>;

/// One crate of a room, with every module that is not for tests alone.
#[derive(Debug, Default)]
pub struct Crate {
    /// The modules; the first one is the root.
    pub modules: Vec<Module>,
}

/// One module: a file, or a `mod` with a body inside of a file.
#[derive(Debug, Default)]
pub struct Module {
    /// The path below the root, such as `["outbound", "gather"]`; empty for the root.
    pub path: Segments,
    /// The module that declares this one; `None` for the root.
    pub parent: Option<usize>,
    /// The module whose file this one stands in: itself, but for a `mod` with a body.
    pub file: usize,
    /// The names of the items that are defined here.
    pub defined: BTreeSet<String>,
    /// The types that are other names of a type with a name (`type Y = X;`), and the path of that one.
    pub aliases: BTreeMap<String, Segments>,
    /// The modules that are declared here.
    pub children: BTreeMap<String, usize>,
    /// The leaves of all `use` declarations.
    pub imports: Vec<Import>,
    /// The paths that are named anywhere else.
    pub paths: BTreeSet<Segments>,
    /// The structs that are defined here.
    pub structs: Vec<Struct>,
    /// The `impl` blocks that stand here.
    pub impls: Vec<Impl>,
}

/// One leaf of a `use` declaration.
#[derive(Debug)]
pub struct Import {
    /// The whole path of the leaf, without the star of a glob.
    pub path: Segments,
    /// The name that it brings into scope; `None`: every name (`*`).
    pub name: Option<String>,
    /// Whether it is a re-export (`pub use`, `pub(crate) use`, `pub(super) use`).
    pub public: bool,
}

/// A struct and the number of its fields that others reach.
#[derive(Debug)]
pub struct Struct {
    /// The name of the struct.
    pub name: String,
    /// The number of fields that code outside of the module can name.
    pub public: usize,
}

/// One `impl` block of a type that has a name.
#[derive(Debug)]
pub struct Impl {
    /// The path of the type, references taken off.
    pub of: Segments,
    /// The path of the trait, if it implements one.
    pub of_trait: Option<Segments>,
}

impl Crate {
    /// Read the crate whose root is `file`. `read` returns the text of a file, or `None` where there is none.
    pub fn read(file: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Result<Crate> {
        let mut found = Crate::default();
        let folder = file.parent().unwrap_or(Path::new(""));
        found.add_file(Vec::new(), None, file, folder, read)?;
        Ok(found)
    }

    /// Add the module of one file. Its children are looked for in `folder`.
    fn add_file(
        &mut self,
        path: Segments,
        parent: Option<usize>,
        file: &Path,
        folder: &Path,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<usize> {
        let text = read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
        let this = self.modules.len();
        self.modules.push(Module { path, parent, file: this, ..Module::default() });
        self.add_items(this, &parsed.items, file, folder, read)?;
        Ok(this)
    }

    /// Add what the items of the module `this` say.
    fn add_items(
        &mut self,
        this: usize,
        items: &[Item],
        file: &Path,
        folder: &Path,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<()> {
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let Some(included) = included(item) {
                let part = file.parent().unwrap_or(Path::new("")).join(included);
                let text = read(&part).with_context(|| format!("cannot read {}", part.display()))?;
                let parsed =
                    syn::parse_file(&text).with_context(|| format!("cannot parse {}", part.display()))?;
                self.add_items(this, &parsed.items, &part, folder, read)?;
                continue;
            }
            let Item::Mod(declared) = item else {
                self.modules[this].add(item);
                continue;
            };
            let name = declared.ident.unraw().to_string();
            let mut path = self.modules[this].path.clone();
            path.push(name.clone());
            let child = if let Some((_, items)) = &declared.content {
                let child = self.modules.len();
                let file_module = self.modules[this].file;
                self.modules.push(Module {
                    path,
                    parent: Some(this),
                    file: file_module,
                    ..Module::default()
                });
                self.add_items(child, items, file, &folder.join(&name), read)?;
                child
            } else {
                let (file, folder) = find(&name, &declared.attrs, file, folder, read)?;
                self.add_file(path, Some(this), &file, &folder, read)?
            };
            self.modules[this].children.insert(name, child);
        }
        Ok(())
    }

    /// The name of a module as the lists have it: `outbound::gather`, and `crate` for the root.
    pub fn name(&self, module: usize) -> String {
        let path = &self.modules[module].path;
        if path.is_empty() { "crate".to_string() } else { path.join("::") }
    }

    /// Whether `module` is `above`, or stands below it.
    pub fn is_below(&self, module: usize, above: usize) -> bool {
        self.modules[module].path.starts_with(&self.modules[above].path)
    }
}

/// The file that an item `include!("...");` takes in. One that a build script makes has no name here.
fn included(item: &Item) -> Option<String> {
    let Item::Macro(call) = item else { return None };
    let is_include = call.ident.is_none() && call.mac.path.segments.last()?.ident == "include";
    is_include.then(|| call.mac.parse_body::<syn::LitStr>().ok())?.map(|name| name.value())
}

/// The file that `mod name;` means, and the folder of its children.
fn find(
    name: &str,
    attributes: &[Attribute],
    file: &Path,
    folder: &Path,
    read: &dyn Fn(&Path) -> Option<String>,
) -> Result<(PathBuf, PathBuf)> {
    if let Some(named) = attributes.iter().find_map(path_attribute) {
        let found = file.parent().unwrap_or(Path::new("")).join(named);
        let below = found.parent().unwrap_or(Path::new("")).to_path_buf();
        return Ok((found, below));
    }
    let below = folder.join(name);
    let candidates = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
    match candidates.into_iter().find(|file| read(file).is_some()) {
        Some(found) => Ok((found, below)),
        None => bail!("{}: found no file of `mod {name};` in {}", file.display(), folder.display()),
    }
}

/// The value of `#[path = "..."]`.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
    pair.path.is_ident("path").then(|| text.value())
}

/// Whether something with these attributes is compiled in tests alone.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| needs_tests(&condition))
        }
        _ => false,
    })
}

/// Whether a condition of `cfg` holds in tests alone.
fn needs_tests(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let inner = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default();
    if list.path.is_ident("all") {
        inner.iter().any(needs_tests)
    } else {
        list.path.is_ident("any") && !inner.is_empty() && inner.iter().all(needs_tests)
    }
}

/// The attributes of an item.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item defines in its module.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.unraw().to_string())
}

impl Module {
    /// Take in an item that is no module.
    fn add(&mut self, item: &Item) {
        self.defined.extend(defined(item));
        match item {
            Item::Struct(item) => {
                let public = item.fields.iter().filter(|field| {
                    !matches!(field.vis, Visibility::Inherited) && !is_for_tests(&field.attrs)
                });
                self.structs.push(Struct { name: item.ident.to_string(), public: public.count() });
            }
            Item::Type(item) => {
                if let Some(meant) = named_type(&item.ty) {
                    self.aliases.insert(item.ident.unraw().to_string(), meant);
                }
            }
            Item::Impl(item) => {
                let of_trait = item.trait_.as_ref().map(|(path, _)| segments(path));
                if let Some(of) = named_type(&item.self_ty) {
                    self.impls.push(Impl { of, of_trait });
                }
            }
            _ => {}
        }
        Names { module: self, local: Vec::new() }.visit_item(item);
    }

    /// Take in the leaves of a `use` declaration, behind what stands before them.
    fn import(&mut self, tree: &UseTree, before: &[String], public: bool) {
        let leaf = |name: String| [before, &[name]].concat();
        let (path, name) = match tree {
            UseTree::Path(step) => {
                return self.import(&step.tree, &leaf(step.ident.unraw().to_string()), public);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, before, public));
            }
            UseTree::Glob(_) => (before.to_vec(), None),
            // `use a::{self}` is `use a`.
            UseTree::Name(leaf) if leaf.ident == "self" => (before.to_vec(), before.last().cloned()),
            UseTree::Rename(leaf) if leaf.ident == "self" => (before.to_vec(), Some(leaf.rename.to_string())),
            UseTree::Name(name) => {
                let name = name.ident.unraw().to_string();
                (leaf(name.clone()), Some(name))
            }
            UseTree::Rename(name) => (leaf(name.ident.unraw().to_string()), Some(name.rename.to_string())),
        };
        self.imports.push(Import { path, name, public });
    }
}

/// The segments of a path. A path that begins with `::` has an empty first one.
fn segments(path: &syn::Path) -> Segments {
    let root = path.leading_colon.is_some().then(String::new);
    root.into_iter().chain(path.segments.iter().map(|segment| segment.ident.unraw().to_string())).collect()
}

/// The path of a type that has a name, references taken off.
fn named_type(ty: &Type) -> Option<Segments> {
    match ty {
        Type::Path(named) if named.qself.is_none() => Some(segments(&named.path)),
        Type::Reference(reference) => named_type(&reference.elem),
        Type::Paren(inner) => named_type(&inner.elem),
        Type::Group(inner) => named_type(&inner.elem),
        _ => None,
    }
}

/// The walk through an item that collects the paths which it names.
struct Names<'a> {
    module: &'a mut Module,
    /// The variables of the functions around.
    local: Vec<BTreeSet<String>>,
}

impl Names<'_> {
    /// Walk through a function, with its variables.
    fn within(&mut self, variables: impl FnOnce(&mut Variables), walk: impl FnOnce(&mut Self)) {
        let mut found = Variables(BTreeSet::new());
        variables(&mut found);
        self.local.push(found.0);
        walk(self);
        self.local.pop();
    }

    /// Take in a path, unless it is a variable.
    fn name(&mut self, path: Segments) {
        let is_local = path.len() == 1 && self.local.iter().any(|names| names.contains(&path[0]));
        if !is_local && !path.is_empty() {
            self.module.paths.insert(path);
        }
    }

    /// The paths among the tokens of a macro call: names joined by `::`, but for what follows a dot.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Segments = Vec::new();
        let (mut colons, mut after_dot) = (0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.name(std::mem::take(&mut path));
                    }
                    if !after_dot {
                        path.push(ident.unraw().to_string());
                    }
                    (colons, after_dot) = (0, false);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                token => {
                    self.name(std::mem::take(&mut path));
                    (colons, after_dot) = (0, false);
                    match token {
                        TokenTree::Punct(punct) => after_dot = punct.as_char() == '.',
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.name(path);
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            let public = !matches!(item.vis, Visibility::Inherited);
            self.module.import(&item.tree, &[], public);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(|found| found.visit_item_fn(item), |walk| visit::visit_item_fn(walk, item));
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            self.within(|found| found.visit_impl_item(item), |walk| visit::visit_impl_item(walk, item));
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        self.within(|found| found.visit_trait_item(item), |walk| visit::visit_trait_item(walk, item));
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.name(segments(path));
        visit::visit_path(self, path);
    }

    /// A pattern such as `LIMIT` may be a constant, and is one if its name is in capitals.
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.unraw().to_string();
        if name.starts_with(char::is_uppercase) {
            self.name(vec![name]);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.name(segments(&call.path));
        self.tokens(call.tokens.clone());
    }

    /// An attribute names no item of the crate, or does so in a string.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    /// The path in `pub(in path)` uses nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// The walk that collects the names of variables.
struct Variables(BTreeSet<String>);

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.unraw().to_string();
        if !name.starts_with(char::is_uppercase) {
            self.0.insert(name);
        }
        visit::visit_pat_ident(self, pattern);
    }
}
