//! The header and the records of the host are the same: a C program prints the places of fields.

use std::fs;
use std::mem::offset_of;
use std::process::Command;

use qos::behaviour::foreign::{Answer, Call, PacketView};
use qos_loader::abi::{RawDescription, Settings};

use crate::lab::{Folder, root};

macro_rules! fields {
    ($lines:ident, $c:literal, $rust:ty, [$($field:literal = $name:ident),*]) => {
        $($lines.push((
            format!("offsetof(struct {}, {})", $c, $field),
            offset_of!($rust, $name),
        ));)*
        $lines.push((format!("sizeof(struct {})", $c), size_of::<$rust>()));
    };
}

#[test]
fn every_field_stands_where_the_header_has_it() {
    let mut lines: Vec<(String, usize)> = Vec::new();
    fields!(lines, "ravelin_qos_call", Call, ["now_ns" = now_ns, "random" = random]);
    fields!(
        lines,
        "ravelin_qos_meta",
        PacketView,
        [
            "arrived_ns" = arrived_ns,
            "cost_ns" = cost_ns,
            "packets" = packets,
            "octets" = octets,
            "association" = association,
            "spi" = spi,
            "mark" = mark,
            "user" = user,
            "flow" = flow,
            "key" = key,
            "app" = app,
            "suite" = suite,
            "peer" = peer,
            "units" = units,
            "class_id" = class,
            "colour" = colour,
            "dscp_outer" = dscp_outer,
            "dscp_inner" = dscp_inner,
            "ecn" = ecn,
            "header" = header,
            "direction" = direction,
            "index" = index
        ]
    );
    fields!(
        lines,
        "ravelin_qos_verdict",
        Answer,
        [
            "action" = action,
            "value" = value,
            "changes" = changes,
            "colour" = colour,
            "dscp" = dscp,
            "reserved" = reserved
        ]
    );
    fields!(
        lines,
        "ravelin_qos_settings",
        Settings,
        [
            "parameters" = parameters,
            "parameters_len" = parameters_len,
            "secret" = secret,
            "ports" = ports,
            "reserved" = reserved
        ]
    );
    fields!(
        lines,
        "ravelin_qos_component",
        RawDescription,
        [
            "abi_major" = abi_major,
            "abi_minor" = abi_minor,
            "struct_size" = struct_size,
            "kind" = kind,
            "name" = name,
            "version" = version,
            "create" = create,
            "destroy" = destroy,
            "run" = run
        ]
    );
    lines.push(("RAVELIN_QOS_MOST_PACKETS".to_owned(), qos::behaviour::foreign::MOST_PACKETS));
    let folder = Folder::new();
    let checks: String =
        lines.iter().map(|(what, is)| format!("_Static_assert({what} == {is}, \"{what}\");\n")).collect();
    for (file, compiler, standard) in [("abi.c", "cc", "-std=c11"), ("abi.cpp", "c++", "-std=c++17")] {
        let source = folder.0.join(file);
        let checks =
            if file == "abi.c" { checks.clone() } else { checks.replace("_Static_assert", "static_assert") };
        fs::write(&source, format!("#include <stddef.h>\n#include \"ravelin-qos.h\"\n{checks}")).unwrap();
        let mut command = Command::new(compiler);
        command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"]);
        assert!(command.arg(root().join("include")).arg(&source).status().unwrap().success(), "{file}");
    }
}
