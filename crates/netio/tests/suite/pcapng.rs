//! Annotated captures: what is written is what another reader of the format finds.

use netio::pcap::{Interface, LinkType, NgWriter, Note, Reader, Statistics};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::io::Cursor;
use std::time::Duration;

const TIME: Duration = Duration::new(1_800_000_000, 123_456_789);

fn interface(name: &str) -> Interface<'_> {
    Interface { name, description: "in clear", link: LinkType::Raw, snaplen: 96 }
}

fn file() -> Vec<u8> {
    let mut writer =
        NgWriter::new("memory", Vec::new(), "ravelin", &[interface("a"), interface("b")]).unwrap();
    for (interface, inbound) in [(0, false), (1, true)] {
        let long = "x".repeat(5000);
        let comment = if inbound { long.as_str() } else { "verdict=protected" };
        let note = Note { interface, time: TIME, inbound, comment, original_len: 1500 };
        writer.packet(&note, &[0x45, 0, 0, 20, 1]).unwrap();
    }
    let statistics = Statistics { start: TIME, end: TIME + Duration::from_secs(1), received: 9, lost: 7 };
    writer.statistics(1, &statistics).unwrap();
    std::mem::take(writer.sink_mut())
}

#[test]
fn frames_come_back_with_their_nanoseconds() {
    let frames: Vec<_> = Reader::new("memory", Cursor::new(file())).unwrap().map(Result::unwrap).collect();
    assert_eq!(frames.len(), 2);
    for frame in frames {
        assert_eq!((frame.time, frame.original_len, frame.link), (TIME, 1500, LinkType::Raw));
        assert_eq!(frame.ip().unwrap(), [0x45, 0, 0, 20, 1]);
    }
}

#[test]
fn comments_directions_and_statistics_are_there() {
    let octets = file();
    let mut reader = PcapNgReader::new(Cursor::new(&octets)).unwrap();
    let (mut seen, mut lost) = (Vec::new(), None);
    while let Some(block) = reader.next_block() {
        match block.unwrap().0 {
            Block::EnhancedPacket(packet) => {
                let mut comment = String::new();
                let mut flags = 0;
                for option in &packet.options {
                    match option {
                        EnhancedPacketOption::Flags(word) => flags = *word,
                        EnhancedPacketOption::Common(CommonOption::Comment(text)) => {
                            comment = text.to_string()
                        }
                        other => panic!("{other:?}"),
                    }
                }
                seen.push((packet.interface_id, flags, comment.len(), comment));
            }
            Block::InterfaceStatistics(block) => {
                assert_eq!(block.interface_id, 1);
                assert!(block.options.contains(&InterfaceStatisticsOption::IsbStartTime(TIME)), "{block:?}");
                assert!(block.options.contains(&InterfaceStatisticsOption::IsbIfRecv(9)), "{block:?}");
                lost = block.options.iter().find_map(|option| match option {
                    InterfaceStatisticsOption::IsbIfDrop(lost) => Some(*lost),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    assert_eq!(lost, Some(7));
    assert_eq!(seen[0], (0, 2, 17, "verdict=protected".to_owned()));
    assert_eq!((seen[1].0, seen[1].1, seen[1].2), (1, 1, 4096));
}
