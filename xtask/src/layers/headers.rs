//! The headers of the kernel half that use each other.
//!
//! A header uses another if it includes it, or names a function, macro, type, constant or variable that the other one
//! defines. All headers end up in one object, so a header that calls what a later one defines is found only here.
//!
//! The reading is one of tokens, and follows the form of this house's C: no type or function is defined inside of
//! another one. A name that a function declares itself (a variable, a parameter) is its own throughout.

use super::graph::Uses;
use std::collections::BTreeSet;

/// A part of C's text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A name or a keyword.
    Name(String),
    /// A sign, or the first character of a number.
    Sign(char),
    /// A text in double or single quotes, without them.
    Text(String),
    /// A `#` that begins a line.
    Directive,
    /// The end of a directive's line.
    End,
}

/// One header, as far as circles go.
#[derive(Debug, Default)]
struct Header {
    /// The names of the headers that it includes.
    includes: BTreeSet<String>,
    defined: BTreeSet<String>,
    /// The tags of the structs, unions and enums that it defines.
    tags: BTreeSet<String>,
    named: BTreeSet<String>,
    named_tags: BTreeSet<String>,
}

/// The uses among headers, by their place in the list of names and texts.
pub fn uses(headers: &[(String, String)]) -> Uses {
    let read: Vec<Header> = headers.iter().map(|(_, text)| Header::read(text)).collect();
    let mut uses = Uses::new();
    for (from, header) in read.iter().enumerate() {
        for (to, other) in read.iter().enumerate().filter(|(to, _)| *to != from) {
            let included = header.includes.get(&headers[to].0).cloned();
            // A name that two define is the own one.
            let named =
                || header.named.difference(&header.defined).find(|name| other.defined.contains(*name));
            let tagged = || header.named_tags.difference(&header.tags).find(|tag| other.tags.contains(*tag));
            let example = included.or_else(|| named().cloned()).or_else(|| tagged().cloned());
            if let Some(example) = example {
                uses.entry(from).or_default().insert(to, example);
            }
        }
    }
    uses
}

impl Header {
    fn read(text: &str) -> Header {
        let tokens = tokens(text);
        let mut header = Header::default();
        let mut rest = tokens.as_slice();
        while let Some((first, after)) = rest.split_first() {
            if *first == Token::Directive {
                let end = after.iter().position(|token| *token == Token::End).unwrap_or(after.len());
                header.add_directive(&after[..end]);
                header.add_names(&without_rows(&after[..end]), &BTreeSet::new());
                rest = after.get(end + 1..).unwrap_or_default();
            } else {
                let (statement, body, after) = statement(rest);
                header.add_statement(&statement, body);
                let whole = &rest[..rest.len() - after.len()];
                header.add_names(whole, &declared(whole, !statement.contains(&Token::Sign('('))));
                rest = after;
            }
        }
        header
    }

    /// Take in every name that is used, but for members behind a dot or an arrow, and for those in `declared`.
    fn add_names(&mut self, tokens: &[Token], declared: &BTreeSet<String>) {
        let mut before: [Option<&Token>; 2] = [None, None];
        for token in tokens {
            if let Token::Name(name) = token {
                let is_member = before[1] == Some(&Token::Sign('.'))
                    || before == [Some(&Token::Sign('-')), Some(&Token::Sign('>'))];
                if is_tag_word(before[1]) {
                    self.named_tags.insert(name.clone());
                } else if !is_member && !declared.contains(name) {
                    self.named.insert(name.clone());
                }
            }
            before = [before[1], Some(token)];
        }
    }

    /// Take in an `#include` or a `#define`.
    fn add_directive(&mut self, line: &[Token]) {
        match line {
            [Token::Name(word), Token::Text(file), ..] if word == "include" => {
                self.includes.insert(file.clone());
            }
            [Token::Name(word), Token::Name(name), ..] if word == "define" => {
                self.defined.insert(name.clone());
            }
            _ => {}
        }
    }

    /// Take in what a statement outside of functions defines. `body` is what stands in its braces.
    fn add_statement(&mut self, statement: &[Token], body: Option<&[Token]>) {
        let tag = statement.windows(3).find_map(|window| match window {
            [word, Token::Name(tag), Token::Sign('{')] if is_tag_word(Some(word)) => Some(tag),
            _ => None,
        });
        self.tags.extend(tag.cloned());
        let is_enum = statement.contains(&Token::Name("enum".into()));
        let is_type =
            statement.windows(2).any(|window| is_tag_word(Some(&window[0])) && window[1] == Token::Sign('{'))
                || tag.is_some();
        if let (true, true, Some(body)) = (is_enum, is_type, body) {
            self.defined.extend(constants(body));
        }
        let bare = without_attributes(statement);
        let call = bare.iter().position(|token| *token == Token::Sign('('));
        let name = match call {
            // A prototype defines nothing.
            Some(_) if body.is_none() => None,
            Some(at) => match (bare.get(at.wrapping_sub(1)), bare.get(at + 1)) {
                (Some(Token::Name(word)), Some(Token::Name(program))) if word.starts_with("BPF_") => {
                    Some(program)
                }
                (Some(Token::Name(name)), _) => Some(name),
                _ => None,
            },
            None => variable(&bare),
        };
        self.defined.extend(name.cloned());
    }
}

/// The names that a statement declares inside of itself: variables and parameters of a function, members of a type. A
/// name is declared if it stands behind another one, perhaps with stars between, and before the end of a declaration.
fn declared(statement: &[Token], is_type: bool) -> BTreeSet<String> {
    const NO_TYPES: [&str; 6] = ["return", "else", "goto", "case", "sizeof", "typeof"];
    let mut found = BTreeSet::new();
    for (at, token) in statement.iter().enumerate() {
        let Token::Name(name) = token else { continue };
        let ends = matches!(statement.get(at + 1), Some(Token::Sign(';' | '=' | ',' | ')' | '[' | ':')));
        let stars = statement[..at].iter().rev().take_while(|token| **token == Token::Sign('*')).count();
        let front = &statement[..at - stars];
        let is_after_type =
            matches!(front.last(), Some(Token::Name(word)) if !NO_TYPES.contains(&word.as_str()));
        // `a = b * c` declares nothing, and `a *c` does: what stands before the type tells them apart.
        let begins = match front.len().checked_sub(2).and_then(|at| front.get(at)) {
            None | Some(Token::Name(_)) => true,
            Some(token) => matches!(token, Token::Sign('{' | '}' | ';' | '(' | ',')),
        };
        let is_next_member = is_type && statement.get(at.wrapping_sub(1)) == Some(&Token::Sign(','));
        if ends && (is_after_type && (stars == 0 || begins) || is_next_member) {
            found.insert(name.clone());
        }
    }
    found
}

/// Whether a tag follows this word.
fn is_tag_word(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Name(word)) if ["struct", "union", "enum"].contains(&word.as_str()))
}

/// The name that a declaration without parentheses gives: the last one before a value or a length.
fn variable(statement: &[Token]) -> Option<&String> {
    if statement.first() == Some(&Token::Name("extern".into())) {
        return None;
    }
    let ends = |token: &Token| matches!(token, Token::Sign('[' | '=' | ';'));
    let end = statement.iter().position(ends)?;
    match statement.get(end.checked_sub(1)?)? {
        Token::Name(name) if !is_tag_word(statement.get(end.wrapping_sub(2))) => Some(name),
        _ => None,
    }
}

/// The constants that the body of an `enum` defines.
fn constants(body: &[Token]) -> Vec<String> {
    let firsts = std::iter::once(0).chain(
        body.iter().enumerate().filter(|(_, token)| **token == Token::Sign(',')).map(|(at, _)| at + 1),
    );
    let names = firsts.filter_map(|at| match body.get(at) {
        Some(Token::Name(name)) => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

/// A statement without `SEC("...")` and `__attribute__((...))`.
fn without_attributes(statement: &[Token]) -> Vec<Token> {
    let mut bare = Vec::new();
    let mut tokens = statement.iter().peekable();
    while let Some(token) = tokens.next() {
        let is_attribute =
            matches!(token, Token::Name(word) if ["SEC", "__attribute__", "__ksym"].contains(&word.as_str()));
        if !is_attribute {
            bare.push(token.clone());
            continue;
        }
        let mut depth = 0;
        while let Some(next) = tokens.peek() {
            match next {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth -= 1,
                _ if depth == 0 => break,
                _ => {}
            }
            tokens.next();
            if depth == 0 {
                break;
            }
        }
    }
    bare
}

/// A directive's line without the words in rows of a table, such as `X(LOST, lost)`: the macro makes other names of them.
fn without_rows(line: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut is_in_row = false;
    for (at, token) in line.iter().enumerate() {
        let begins = *token == Token::Name("X".into()) && line.get(at + 1) == Some(&Token::Sign('('));
        is_in_row = begins || is_in_row && *token != Token::Sign(')');
        if !is_in_row {
            kept.push(token.clone());
        }
    }
    kept
}

/// The first statement, with an empty pair of braces in place of its body; the body, if it has one; what follows. A
/// function ends with its body, anything else with a semicolon.
fn statement(tokens: &[Token]) -> (Vec<Token>, Option<&[Token]>, &[Token]) {
    let mut statement = Vec::new();
    let mut body = None;
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('{') => {
                if depth == 0 {
                    statement.push(token.clone());
                    begin = at + 1;
                }
                depth += 1;
            }
            Token::Sign('}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    statement.push(token.clone());
                    body = body.or(tokens.get(begin..at));
                    let is_function =
                        statement.contains(&Token::Sign('(')) && !statement.contains(&Token::Sign('='));
                    if is_function {
                        return (statement, body, &tokens[at + 1..]);
                    }
                }
            }
            _ if depth > 0 => {}
            token => {
                statement.push(token.clone());
                if *token == Token::Sign(';') {
                    return (statement, body, &tokens[at + 1..]);
                }
            }
        }
    }
    (statement, body, &[])
}

/// The tokens of a text of C, without comments.
fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text;
    let (mut begins_line, mut in_directive) = (true, false);
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("\\\n") {
            2
        } else if first == '\n' {
            if in_directive {
                found.push(Token::End);
            }
            (begins_line, in_directive) = (true, false);
            1
        } else if first.is_whitespace() {
            first.len_utf8()
        } else if first == '#' && begins_line {
            (begins_line, in_directive) = (false, true);
            found.push(Token::Directive);
            1
        } else if first == '"' || first == '\'' {
            begins_line = false;
            let len = quoted(rest, first);
            found.push(Token::Text(rest[1..len].trim_end_matches(first).to_string()));
            len
        } else {
            begins_line = false;
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(first.len_utf8());
            let is_name = is_word(first) && !first.is_ascii_digit();
            found.push(if is_name { Token::Name(rest[..len].to_string()) } else { Token::Sign(first) });
            len
        };
        rest = &rest[len..];
    }
    if in_directive {
        found.push(Token::End);
    }
    found
}

/// The length in octets of the quoted text that `rest` begins with, quotes included.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::super::graph::circles;
    use super::*;

    /// The circles among headers, by their names.
    fn found(headers: &[(&str, &str)]) -> Vec<Vec<String>> {
        let headers: Vec<_> =
            headers.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        let circles = circles(&uses(&headers));
        circles.iter().map(|circle| circle.iter().map(|at| headers[*at].0.clone()).collect()).collect()
    }

    #[test]
    fn headers_that_include_each_other_are_a_circle() {
        let a = ("a.h", "#ifndef A_H\n#define A_H\n#include \"b.h\"\n#endif\n");
        assert_eq!(found(&[a, ("b.h", "#include \"a.h\"\n")]), [["a.h", "b.h"]]);
        assert_eq!(
            found(&[a, ("b.h", "#include \"c.h\"\n"), ("c.h", "\n  #  include \"a.h\"\n")]),
            [["a.h", "b.h", "c.h"]]
        );
        assert_eq!(found(&[a, ("b.h", "#include <a.h>\n/* #include \"a.h\" */\n")]).len(), 0);
    }

    #[test]
    fn a_header_that_names_what_its_includer_defines_closes_a_circle() {
        let defines = "static __always_inline int early(int n)\n{\n\treturn n;\n}\n#define LIMIT 3\n\
                       enum kind {\n\tKIND_A, /* one */\n\tKIND_B = 4,\n};\nstruct owner {\n\tint app;\n};\n\
                       struct {\n\t__uint(type, X);\n} table SEC(\".maps\");\n\
                       const volatile int numbers[4] SEC(\".rodata\") = { 0 };\n\
                       SEC(\"tcx/egress\")\nint program(void *ctx)\n{\n\treturn 0;\n}\n\
                       SEC(\"lsm/x\")\nint BPF_PROG(hook, int a)\n{\n\treturn a;\n}\n";
        let a = format!("{defines}#include \"b.h\"\n");
        for used in [
            "early(1)",
            "LIMIT",
            "KIND_A",
            "KIND_B",
            "(struct owner *)0",
            "lookup(&table)",
            "numbers[1]",
            "program(0)",
            "hook(1)",
        ] {
            let b = format!("static int late(void)\n{{\n\treturn {used};\n}}\n");
            assert_eq!(found(&[("a.h", &a), ("b.h", &b)]), [["a.h", "b.h"]], "{used}");
        }
        for used in
            ["x.early", "x->table", "owner", "\"LIMIT\"", "early_one(1)", "/* early(1) */ 0", "app", "type"]
        {
            let b = format!("static int late(void)\n{{\n\treturn {used};\n}}\n");
            assert_eq!(found(&[("a.h", &a), ("b.h", &b)]).len(), 0, "{used}");
        }
        assert_eq!(
            found(&[("a.h", &a), ("b.h", "static int early(int n);\n")]).len(),
            1,
            "a prototype calls back"
        );
        for declares in [
            "struct rvl_stats {\n\t__u32 table[3], early;\n\tstruct x *program;\n};\n",
            "static int late(int program, struct x *table)\n{\n\tint early = 1;\n\n\treturn early + *table;\n}\n",
        ] {
            assert_eq!(found(&[("a.h", &a), ("b.h", declares)]).len(), 0, "{declares}");
        }
        let product = "static int late(int n)\n{\n\tn = n * LIMIT;\n\treturn n;\n}\n";
        assert_eq!(found(&[("a.h", &a), ("b.h", product)]).len(), 1, "a factor is no declaration");
        let rows = "#define ROWS(X) \\\n\tX(TABLE, table) \\\n\tX(EARLY, early)\n";
        assert_eq!(found(&[("a.h", &a), ("b.h", rows)]).len(), 0, "words in a table are no names");
    }
}
