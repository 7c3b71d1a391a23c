//! Checks of the parsers for names and answers of etcd and ZooKeeper.

use prost::Message as _;

use super::Input;
use crate::base::digits::percent_decoded;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::etcd::epoch::Epoch;
use crate::store::etcd::messages::TxnResponse;
use crate::store::etcd::names as etcd;
use crate::store::etcd::requests::one;
use crate::store::session::service::Node;
use crate::store::zookeeper::names as zookeeper;

/// Checks three properties. Keys and names are read as they were written, and each key has one
/// directory. No answer lowers an epoch, the revision of a session's key.
///
/// # Panics
///
/// If a property does not hold.
pub fn etcd(bytes: &[u8]) {
    answer(bytes);
    let mut input = Input(bytes);
    let (lease, name, fence) = (
        input.number().cast_signed(),
        token(&mut input),
        fence(&mut input),
    );
    let Ok(text) = str::from_utf8(input.0) else {
        return;
    };
    let names = etcd::Names::new("shop/locks");
    let node = Node {
        key: text.into(),
        name,
        number: 0,
    };
    let path = names.node(lease, &node);
    let (key, end) = names.parts(&path).expect("a node is below the prefix");
    assert_eq!((&*key, etcd::own(end)), (text, Some((lease, name))));
    let session = names.session(lease);
    let revocation = etcd::revocation(&session, name, fence);
    assert_eq!(
        etcd::revoked(&session, revocation.as_bytes()),
        Some((name, fence))
    );
    // Also parses the text as a key that another program may have written.
    if let Some((key, end)) = names.parts(text) {
        assert_eq!(
            names.directory(&key) + end,
            text,
            "another directory of the key"
        );
    }
    let _ = etcd::own(text);
    let _ = etcd::revoked("s", text.as_bytes());
    assert!(text.is_empty() || text.as_bytes() < etcd::end_of(text).as_slice());
}

fn answer(bytes: &[u8]) {
    let Ok(answer) = TxnResponse::decode(bytes) else {
        return;
    };
    let again = TxnResponse::decode(answer.encode_to_vec().as_slice());
    assert_eq!(again.as_ref(), Ok(&answer));
    let epoch = Epoch::new("s".to_owned(), 1, 7);
    let _ = epoch.sealed(&answer);
    let _ = epoch.learn(&answer);
    assert!(7 <= epoch.now(), "an epoch went back");
    for at in 0..4 {
        let _ = one(&answer, at);
    }
}

/// Checks that the directory of each key is a valid path of ZooKeeper. Directories and the names of
/// nodes must be read as they were written.
///
/// # Panics
///
/// If a property does not hold.
pub fn zookeeper(bytes: &[u8]) {
    let _ = crate::store::zookeeper::handshake::grants(bytes);
    let mut input = Input(bytes);
    let (name, fence, number) = (token(&mut input), fence(&mut input), input.byte());
    let Ok(text) = str::from_utf8(input.0) else {
        return;
    };
    let names = zookeeper::Names::new("shop");
    if !text.is_empty() {
        let directory = names.directory(text);
        assert!(zookeeper::is_path(&directory[1..]), "{directory}");
        let own = directory
            .strip_prefix("/shop/")
            .expect("it is below the chroot");
        assert!(!own.contains('/') && own != "%", "{directory}");
        assert_eq!(percent_decoded(own).as_deref(), Some(text));
    }
    let znode = format!("{}{number:010}", zookeeper::prefix(name));
    assert_eq!(zookeeper::token(&znode), Some(name));
    assert!(zookeeper::number(&znode).is_some_and(|number| !number.is_worn_out()));
    let revoked = zookeeper::revoked(name, fence);
    assert_eq!(zookeeper::read_revoked(&revoked), Some((name, fence)));
    // Also parses the text as a name that another program may have written.
    let _ = zookeeper::read_revoked(text);
    let _ = zookeeper::token(text);
    let _ = zookeeper::number(text);
}

fn token(input: &mut Input<'_>) -> Token {
    Token::fixed(u128::from(input.number()) << 64 | u128::from(input.number()))
}

fn fence(input: &mut Input<'_>) -> Fence {
    Fence::new(input.number())
}
