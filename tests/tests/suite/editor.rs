//! The language server beside a real daemon: live flows are those of real sockets, for the policy as it is in the editor.

use lab::rig::{Rig, RigOptions};
use lab::{Program, Side, Transport};
use serde_json::{Value, json};
use tests::{PATIENCE, binary, program};

const PORT: u16 = 2121;

fn frame(id: Option<u32>, method: &str, params: Value) -> String {
    let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
    if let Some(id) = id {
        message["id"] = id.into();
    }
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn live_flows_of_real_sockets_are_counted() {
    let options =
        RigOptions { name: "rvl-editor".into(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    let python = program("python3");
    let peer = Side::Bob.v4();
    let policy = |second: u16| {
        format!(
            "application \"{}\" {{\nnetwork {peer} protected P;\nnetwork 198.51.100.0/24 trusted;\nprotection P {{\nremoteport={second} never;\n\
             remoteport={PORT} never;\n}}\n}}\n",
            python.display()
        )
    };
    rig.set_policy(Side::Alice, &policy(9)).unwrap();
    rig.start(Side::Alice).unwrap();
    let serve = format!(
        "import socket\ns = socket.create_server(('', {PORT}))\nl = []\nwhile True: l.append(s.accept())"
    );
    let mut server = rig.lab.bob().spawn(Program::new(&python).args(["-c", &serve])).unwrap();
    rig.lab.bob().wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE).unwrap();
    let dial = format!(
        "import socket, time\nl = [socket.create_connection(('{peer}', {PORT}), 10) for _ in range(3)]\n\
         print('ready', flush=True)\ntime.sleep(600)"
    );
    let client = rig.lab.alice().spawn(Program::new(&python).args(["-c", &dial])).unwrap();
    client.wait_for_output("ready", PATIENCE).unwrap();

    // In the editor another item decides about them than in the policy in force.
    let uri = "file:///p.policy";
    let document = json!({ "uri": uri, "languageId": "ravelin", "version": 1, "text": policy(PORT) });
    let mut input = frame(Some(0), "initialize", json!({ "capabilities": {} }));
    input.push_str(&frame(None, "textDocument/didOpen", json!({ "textDocument": document })));
    let lines = [(0, 3), (1, 3), (2, 0), (4, 3), (5, 0)];
    for (line, _) in lines {
        let place = json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": 2 } });
        input.push_str(&frame(Some(line + 1), "textDocument/hover", place));
    }
    input.push_str(&frame(Some(99), "shutdown", Value::Null));
    input.push_str(&frame(None, "exit", Value::Null));
    let instance = rig.instance(Side::Alice);
    let said = rig.ravelin(Side::Alice, &["policy", "lsp", "--instance", &instance], &input).unwrap();
    let answers: Vec<Value> = said
        .split("Content-Length: ")
        .filter_map(|frame| serde_json::from_str(frame.split_once("\r\n\r\n")?.1).ok())
        .collect();
    for (line, count) in lines {
        let answer =
            answers.iter().find(|answer| answer["id"] == line + 1).unwrap_or_else(|| panic!("{said}"));
        let text = answer["result"]["contents"]["value"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(text.contains(&format!("\n{count} live flows match")), "line {line}: {text}");
    }
}
