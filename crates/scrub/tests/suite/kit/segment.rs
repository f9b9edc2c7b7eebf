//! A segment to send, said in short: numbers count from each end's first octet. The live cases (tests/src/attacks) use
//! it too.
#![allow(dead_code, reason = "each test program uses a part of it")]

use scrub::Side;
use wire::checksum;
use wire::ip::Headers;
use wire::tcp::Flags;

pub const CLIENT: [u8; 4] = [192, 0, 2, 1];
pub const SERVER: [u8; 4] = [198, 51, 100, 2];
pub const ACK: Flags = Flags::ACK;
pub const SYN: Flags = Flags::SYN;
pub const FIN: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);
pub const RST: Flags = Flags::RST;
pub const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

/// One segment that is to be sent.
#[derive(Clone)]
pub struct Seg {
    pub from: Side,
    /// The number, counted from the first octet behind the SYN.
    pub seq: i64,
    pub ack: i64,
    pub flags: Flags,
    pub data: Vec<u8>,
    pub options: Vec<u8>,
    pub window: u16,
    pub urgent: u16,
    pub ttl: u8,
    pub tos: u8,
    pub ports: (u16, u16),
    pub bad_checksum: bool,
    pub offset: Option<u8>,
}

impl std::fmt::Debug for Seg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, seq, len, ack, window) =
            (self.from.name(), self.seq, self.data.len(), self.ack, self.window);
        write!(f, "{from} {seq}+{len} ack {ack} window {window} flags {:#x} ecn {}", self.flags.0, self.tos)?;
        write!(f, " options {:?}", self.options)
    }
}

/// A segment that the client sends.
pub fn client(seq: i64, data: &[u8]) -> Seg {
    Seg {
        from: Side::Outside,
        seq,
        ack: 0,
        flags: ACK,
        data: data.to_vec(),
        options: Vec::new(),
        window: 65535,
        urgent: 0,
        ttl: 60,
        tos: 0,
        ports: (40000, 80),
        bad_checksum: false,
        offset: None,
    }
}

/// A segment that the server sends.
pub fn server(seq: i64, data: &[u8]) -> Seg {
    Seg { from: Side::Inside, ports: (80, 40000), ..client(seq, data) }
}

impl Seg {
    pub fn flags(mut self, flags: Flags) -> Seg {
        self.flags = flags;
        self
    }
    pub fn ack(mut self, ack: i64) -> Seg {
        self.ack = ack;
        self
    }
    pub fn window(mut self, window: u16) -> Seg {
        self.window = window;
        self
    }
    pub fn ttl(mut self, ttl: u8) -> Seg {
        self.ttl = ttl;
        self
    }
    pub fn options(mut self, options: &[u8]) -> Seg {
        self.options = options.to_vec();
        while !self.options.len().is_multiple_of(4) {
            self.options.push(0);
        }
        self
    }
    pub fn stamps(self, value: u32, echo: u32) -> Seg {
        let mut options = vec![1, 1, 8, 10];
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
        self.options(&options)
    }
    pub fn with(mut self, edit: impl FnOnce(&mut Seg)) -> Seg {
        edit(&mut self);
        self
    }

    pub fn packet(&self, isn: [u32; 2]) -> Vec<u8> {
        let (own, other) = (isn[self.from.index()], isn[self.from.other().index()]);
        let number = |isn: u32, at: i64| isn.wrapping_add(1).wrapping_add(at as u32);
        let header = 20 + self.options.len();
        let total = 20 + header + self.data.len();
        let mut bytes = vec![0x45, self.tos];
        bytes.extend((total as u16).to_be_bytes());
        bytes.extend([0x12, 0x34, 0x40, 0, self.ttl, 6, 0, 0]);
        let (src, dst) = if self.from == Side::Outside { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        bytes.extend(src);
        bytes.extend(dst);
        bytes.extend(self.ports.0.to_be_bytes());
        bytes.extend(self.ports.1.to_be_bytes());
        bytes.extend(number(own, self.seq).to_be_bytes());
        let ack = if self.flags.contains(ACK) { number(other, self.ack) } else { 0 };
        bytes.extend(ack.to_be_bytes());
        let words = self.offset.unwrap_or((header / 4) as u8);
        bytes.extend((u16::from(words) << 12 | self.flags.0).to_be_bytes());
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.urgent.to_be_bytes());
        bytes.extend(&self.options);
        bytes.extend(&self.data);
        let check = checksum::ip_checksum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&check.to_be_bytes());
        let headers = Headers::parse(&bytes).expect("a packet");
        checksum::complete_transport(&mut bytes, &headers).expect("a segment");
        if self.bad_checksum {
            bytes[36] ^= 0x55;
        }
        bytes
    }
}
