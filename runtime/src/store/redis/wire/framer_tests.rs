use proptest::prelude::*;

use super::*;
use crate::store::redis::wire::replies;

/// Passes a stream to the framer in pieces. `pieces` has their lengths, and is repeated for a
/// longer stream. Returns the bytes of the complete replies, the error, and the framer.
fn passed(stream: &[u8], pieces: &[usize]) -> (Vec<Vec<u8>>, Option<Garbage>, Framer) {
    let (mut framer, mut out, mut rest) = (Framer::new(), Vec::new(), stream);
    for piece in pieces.iter().cycle() {
        let (now, later) = rest.split_at((*piece).min(rest.len()));
        rest = later;
        let garbage = framer.accept(now).err();
        while let Some(reply) = framer.next() {
            out.push(reply.to_vec());
        }
        if garbage.is_some() || rest.is_empty() {
            return (out, garbage, framer);
        }
    }
    unreachable!("the pieces come again and again")
}

#[track_caller]
fn refused(stream: &[u8], expected: &str) {
    for pieces in [&[1][..], &[4096]] {
        let (_, garbage, _) = passed(stream, pieces);
        let garbage = garbage.expect("no reply").to_string();
        assert!(garbage.contains(expected), "{garbage}");
        assert!(garbage.len() < 200, "it shows all of it: {garbage}");
    }
}

fn whole(stream: &[u8]) -> bool {
    let (out, garbage, framer) = passed(stream, &[stream.len().max(1)]);
    garbage.is_none() && out == [stream] && framer.is_between_replies()
}

#[test]
fn replies_of_every_type_pass() {
    for reply in [
        "+OK\r\n",
        "-ERR a \r b \n c\r\n",
        ":-12\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$5\r\na\r\nbc\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n$3\r\nGET\r\n*1\r\n:1\r\n",
        "%1\r\n+k\r\n$1\r\nv\r\n",
        "~1\r\n#t\r\n",
        ">2\r\n+message\r\n_\r\n",
        "|1\r\n+ttl\r\n:3\r\n+OK\r\n",
        "=6\r\ntxt:ab\r\n",
        "!3\r\nERR\r\n",
        ",1.5\r\n",
        "(123456789012345678901234567890\r\n",
    ] {
        assert!(whole(reply.as_bytes()), "{reply:?}");
        for cut in 1..reply.len() {
            let (_, garbage, framer) = passed(&reply.as_bytes()[..cut], &[1]);
            assert_eq!(garbage, None, "{reply:?} up to {cut}");
            assert!(!framer.is_between_replies(), "{reply:?} up to {cut}");
        }
    }
}

/// Fails if the framer waits for further bytes of an invalid reply instead of refusing it. The
/// caller would wait too, and the buffer would grow.
#[test]
fn invalid_replies_are_refused_immediately() {
    let endless = [b"+".to_vec(), vec![b'x'; LONGEST_LINE]].concat();
    refused(
        &endless,
        "a line that does not end within 65536 bytes and begins with `+xxx",
    );
    refused(
        b"*0000000000000000000000000000000000000",
        "does not end within 32 bytes",
    );
    refused(b"HTTP/1.1 400 Bad Request\r\n", "0x48");
    refused(b"\x00\xff", "0x00");
    refused(b"\r\n", "0x0d");
    refused(
        b"$9223372036854775807\r\n",
        "a text of 9223372036854775807 bytes",
    );
    refused(b"$16777217\r\n", "the limit of 16777216");
    refused(b"*65537\r\n", "65537 values");
    refused(b"%99999999999999999999\r\n", "instead of a length");
    refused(b"$-2\r\n", "`-2` instead of a length");
    refused(b"%-1\r\n", "negative");
    refused(b"$x\r\n", "`x` instead of a length");
    refused(b"$\r\n", "instead of a length");
    refused(b"$1\r\nabc", "does not end where it should");
    refused("*1\r\n".repeat(17).as_bytes(), "more than 16 deep");
    let mut large = b"*3\r\n".to_vec();
    for _ in 0..3 {
        large.extend_from_slice(b"$8388608\r\n");
        large.resize(large.len() + 8 * 1024 * 1024, b'x');
        large.extend_from_slice(b"\r\n");
    }
    let (_, garbage, _) = passed(&large, &[1 << 20]);
    let garbage = garbage.expect("too long").to_string();
    assert!(
        garbage.contains("a reply of more than 16777216"),
        "{garbage}"
    );
}

#[test]
fn replies_of_the_maximum_length_pass() {
    let line = [vec![b'-'; LONGEST_LINE - 2], b"\r\n".to_vec()].concat();
    assert!(whole(&line));
    let text = usize::try_from(LONGEST).expect("it fits");
    let text = [
        b"$16777216\r\n".to_vec(),
        vec![b'x'; text],
        b"\r\n".to_vec(),
    ]
    .concat();
    assert!(whole(&text));
    let deep = ["*1\r\n".repeat(DEEPEST), ":1\r\n".to_owned()].concat();
    assert!(whole(deep.as_bytes()));
}

/// Fails if the framer reads a byte again when more bytes arrive. A long reply in small pieces
/// would then cost the square of its length.
#[test]
fn every_byte_is_read_once() {
    let line = [vec![b'+'; LONGEST_LINE - 2], b"\r\n".to_vec()].concat();
    let map = "*3\r\n:1\r\n:2\r\n$4\r\nnode\r\n".repeat(10_000);
    for stream in [line, map.into_bytes()] {
        for piece in [1, 3, 4096] {
            let (out, garbage, framer) = passed(&stream, &[piece]);
            assert_eq!((out.concat().len(), garbage), (stream.len(), None));
            assert!(
                framer.looked_at <= stream.len() as u64,
                "{}",
                framer.looked_at
            );
        }
    }
}

/// Generates a reply that the framer must accept. A parser may still refuse it, for example `:abc`.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        "[+:,(-][a-z0-9 \n-]{0,12}\r\n".prop_map(String::into_bytes),
        "[a-z\r\n$*]{0,20}".prop_map(|text| format!("${}\r\n{text}\r\n", text.len()).into_bytes()),
        Just(b"$-1\r\n".to_vec()),
        Just(b"_\r\n".to_vec()),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop::collection::vec(inner, 0..5).prop_map(|values| {
            let mut reply = format!("*{}\r\n", values.len()).into_bytes();
            reply.extend(values.concat());
            reply
        })
    })
}

proptest! {
    /// Fails if the framer refuses or loses a part of the generated replies, whole or in pieces.
    /// Also fails if `replies::read` and the parser of the crate `redis` parse a reply differently.
    #[test]
    fn replies_may_be_split_anywhere(
        replies in prop::collection::vec(reply(), 1..6),
        pieces in prop::collection::vec(1_usize..40, 1..8),
    ) {
        let stream = replies.concat();
        let (out, garbage, framer) = passed(&stream, &pieces);
        prop_assert_eq!(garbage, None);
        prop_assert_eq!(&out, &replies);
        prop_assert!(framer.is_between_replies());
        for reply in replies {
            prop_assert!(whole(&reply));
            let parsed = redis::parse_redis_value(&reply).ok();
            prop_assert_eq!(replies::read(&reply).ok(), parsed);
        }
    }

    #[test]
    fn noise_is_judged_independently_of_its_splits(
        noise in prop::collection::vec(prop::sample::select(b"+-:$*%|=_#,(>~!\r\n0123xy".to_vec()), 0..80),
        pieces in prop::collection::vec(1_usize..9, 1..8),
    ) {
        let at_once = passed(&noise, &[noise.len().max(1)]);
        let in_pieces = passed(&noise, &pieces);
        prop_assert_eq!(at_once.0, in_pieces.0);
        prop_assert_eq!(at_once.1, in_pieces.1);
    }
}
