//! Names on the server: the process, and the auxiliary keys of locks.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;
use std::time::SystemTime;

use redis::{RedisWrite, ToRedisArgs};

use super::hash_slot;
use super::reply::Scripts;
use crate::base::token::{Nonce, Token};
use crate::host::host;
use crate::key::RESERVED;
use crate::owner::shortened;
use crate::store::options::Options;

/// The names that one pool uses on its server.
#[derive(Clone)]
pub(crate) struct KeyNames {
    /// Empty, or the namespace followed by a colon.
    prefix: String,
    process: String,
    /// `host pid`.
    owner: String,
    fences: String,
    /// Prefix of the keys of queues. `shares`, `results` and `channels` are also prefixes.
    queues: String,
    shares: String,
    results: String,
    channels: String,
    /// In a cluster, one of the slots of the node for which these names are used. A check puts the
    /// key of its trial lock into this slot.
    slot: Option<u16>,
    /// True if locks have auxiliary keys, such as a queue and a fence counter.
    auxiliary_keys: bool,
    /// Milliseconds of unbroken use after which a key is left free for clients that do not use the
    /// queue. Empty for never.
    make_way_after: String,
}

impl KeyNames {
    pub(crate) fn new(namespace: &str) -> Self {
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}:")
        };
        let process = Token::random(Nonce::new()).hex();
        Self {
            fences: format!("{prefix}{RESERVED}:fence"),
            queues: format!("{prefix}{RESERVED}:queue:"),
            shares: format!("{prefix}{RESERVED}:shares:"),
            results: format!("{prefix}{RESERVED}:result:"),
            channels: format!("{prefix}{RESERVED}:turn:"),
            prefix,
            process,
            owner: format!("{} {}", host(), std::process::id()),
            slot: None,
            auxiliary_keys: true,
            make_way_after: String::new(),
        }
    }

    /// Returns the names of a pool with these options.
    pub(crate) fn of(options: &Options) -> Self {
        let after = options.make_way_after.as_millis();
        Self {
            make_way_after: if after == 0 {
                String::new()
            } else {
                after.to_string()
            },
            ..Self::new(&options.namespace)
        }
    }

    /// Returns the same names for a node of a quorum (Redlock). There, locks have no auxiliary
    /// keys, because independent nodes would have different content in them.
    pub(crate) fn without_companions(self) -> Self {
        Self {
            auxiliary_keys: false,
            ..self
        }
    }

    pub(crate) fn make_way_after(&self) -> &str {
        &self.make_way_after
    }

    pub(crate) fn have_auxiliary_keys(&self) -> bool {
        self.auxiliary_keys
    }

    /// Returns the kind of scripts that use these names.
    pub(crate) fn scripts(&self) -> Scripts {
        if self.auxiliary_keys {
            Scripts::Fenced
        } else {
            Scripts::Plain
        }
    }

    /// Returns the same names for the cluster node that has `slot`. In a cluster, a lock's
    /// auxiliary keys are in the lock's slot. They have a hash tag of that slot, whether or not the
    /// lock's own key has one.
    pub(crate) fn on_node(&self, slot: u16) -> Self {
        Self {
            slot: Some(slot),
            ..self.clone()
        }
    }

    pub(crate) fn in_cluster(&self) -> bool {
        self.slot.is_some()
    }

    /// Returns this process's name in queues. `Debug` does not show the name: with it, another
    /// client could take a key reserved for this process.
    pub(crate) fn process(&self) -> &str {
        &self.process
    }

    /// Returns the owner of a lock, for operators who read its key: the host, the process id and
    /// the function of the call.
    pub(crate) fn owner(&self, function: &str) -> String {
        shortened([&self.owner, " ", function]).concat()
    }

    /// Returns the process's name, `:`, and the owner of a lock.
    pub(crate) fn signature<'a>(&'a self, function: &'a str) -> Joined<'a, 5> {
        let [owner, space, function] = shortened([&self.owner, " ", function]);
        Joined([&self.process, ":", owner, space, function])
    }

    /// Returns the text after the token in a lock's value, for a node of a quorum. The time of this
    /// machine's clock takes the position of the fence, because such a node gives no fence.
    pub(crate) fn record(&self, function: &str) -> String {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let micros = since.unwrap_or_default().as_micros();
        let owner = self.owner(function);
        format!("{micros}:0:{}:{owner}", self.process)
    }

    /// Returns the key of the fence counter for `key`. One counter serves all locks of the
    /// namespace, or in a cluster all locks of a slot.
    pub(crate) fn fences(&self, key: &str) -> Cow<'_, str> {
        match self.slot {
            None => Cow::Borrowed(&self.fences),
            Some(_) => Cow::Owned(self.in_slot(hash_slot::of(key), "fence", "")),
        }
    }

    /// Returns the key of the queue for `key`.
    pub(crate) fn queue<'a>(&'a self, key: &'a str) -> AuxiliaryKey<'a> {
        self.auxiliary_key(&self.queues, "queue", key)
    }

    /// Returns the key of the shares of `key`.
    pub(crate) fn shares<'a>(&'a self, key: &'a str) -> AuxiliaryKey<'a> {
        self.auxiliary_key(&self.shares, "shares", key)
    }

    /// Returns the key of the kept results for `key`.
    pub(crate) fn result<'a>(&'a self, key: &'a str) -> AuxiliaryKey<'a> {
        self.auxiliary_key(&self.results, "result", key)
    }

    fn auxiliary_key<'a>(&self, usual: &'a str, what: &str, key: &'a str) -> AuxiliaryKey<'a> {
        match self.slot {
            None => AuxiliaryKey::Usual(Joined([usual, key])),
            Some(_) => AuxiliaryKey::InSlot(self.in_slot(hash_slot::of(key), what, key)),
        }
    }

    /// Returns a key in `slot`. The server reads the hash tag at the key's first brace. If the
    /// namespace contains a brace, the tag must therefore precede the namespace.
    fn in_slot(&self, slot: u16, what: &str, key: &str) -> String {
        let (tag, prefix) = (hash_slot::tag(slot), &self.prefix);
        let colon = if key.is_empty() { "" } else { ":" };
        if prefix.contains('{') {
            format!("{tag}:{prefix}{RESERVED}:{what}{colon}{key}")
        } else {
            format!("{prefix}{RESERVED}:{tag}:{what}{colon}{key}")
        }
    }

    /// Returns the prefix of the channels of all processes. A process's name follows the prefix.
    pub(crate) fn channels(&self) -> &str {
        &self.channels
    }

    /// Returns the channel for messages to this process, for example that a key is reserved for it.
    pub(crate) fn channel(&self) -> String {
        [self.channels.as_str(), &self.process].concat()
    }

    /// Returns the key of the trial lock with which a check runs the scripts.
    pub(crate) fn trial(&self, token: Token) -> String {
        let token = token.hex();
        match self.slot {
            None => format!("{}{RESERVED}:check:{token}", self.prefix),
            Some(slot) => self.in_slot(slot, "check", &token),
        }
    }
}

/// The auxiliary key of a lock, as an argument of a command.
#[derive(Debug)]
pub(crate) enum AuxiliaryKey<'a> {
    /// The prefix and the lock's key. They are joined only when the command is written, which saves
    /// one allocation for each request.
    Usual(Joined<'a, 2>),
    InSlot(String),
}

impl ToRedisArgs for AuxiliaryKey<'_> {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        match self {
            Self::Usual(parts) => parts.write_redis_args(out),
            Self::InSlot(key) => key.write_redis_args(out),
        }
    }
}

/// Parts of one argument of a command.
#[derive(Debug)]
pub(crate) struct Joined<'a, const N: usize>([&'a str; N]);

impl<const N: usize> ToRedisArgs for Joined<'_, N> {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        let mut arg = out.writer_for_next_arg();
        for part in self.0 {
            // Writing to a command cannot fail.
            let _ = arg.write_all(part.as_bytes());
        }
    }
}

impl fmt::Debug for KeyNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyNames")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::full_key::FullKey;
    use crate::key;

    fn text(auxiliary_key: &AuxiliaryKey<'_>) -> String {
        let parts = auxiliary_key.to_redis_args();
        assert_eq!(parts.len(), 1);
        String::from_utf8(parts.concat()).expect("of text")
    }

    #[test]
    fn keys_have_no_hash_tags_outside_a_cluster() {
        let names = KeyNames::new("shop");
        assert_eq!(names.fences("shop:k"), "shop:%leasehold:fence");
        assert_eq!(text(&names.queue("shop:k")), "shop:%leasehold:queue:shop:k");
        assert_eq!(
            text(&names.shares("shop:k")),
            "shop:%leasehold:shares:shop:k"
        );
    }

    #[test]
    fn companion_keys_in_a_cluster_stay_in_the_namespace() {
        let names = KeyNames::new("shop").on_node(5);
        let tag = hash_slot::tag(hash_slot::of("shop:{k}"));
        assert_eq!(
            text(&names.queue("shop:{k}")),
            format!("shop:%leasehold:{tag}:queue:shop:{{k}}")
        );
        assert_eq!(
            names.fences("shop:{k}"),
            format!("shop:%leasehold:{tag}:fence")
        );
    }

    /// Generates namespaces and keys that resemble the names of auxiliary keys.
    fn of_own_words() -> impl Strategy<Value = String> {
        let words = [
            ":",
            ":",
            "%leasehold",
            "%leasehold:",
            "fence",
            "queue",
            "shares",
            "result",
            "check",
            "{1a2b}",
            "{",
            "}",
            "a",
            "lock",
            "",
        ];
        prop::collection::vec(prop::sample::select(words.to_vec()), 0..6)
            .prop_map(|words| words.concat())
    }

    /// Returns the full key of a lock, or `None` if a call with this namespace and key is refused.
    fn accepted(namespace: &str, key: &str) -> Option<String> {
        key::check_namespace(namespace).ok()?;
        let key = key::check(key.to_owned()).ok()?;
        Some(FullKey::new(namespace, &key).to_string())
    }

    proptest! {
        /// Fails if the key of a lock can equal an auxiliary key of another lock, in any namespace.
        /// Auxiliary keys are those of the queue, the shares, the fence counter, the results and a
        /// check. Taking or releasing a lock with such a key would overwrite or delete data of the
        /// other lock.
        #[test]
        fn no_lock_key_is_a_companion_key_of_another_lock(
            namespace in of_own_words(),
            key in of_own_words(),
            home in 0..hash_slot::SLOTS,
        ) {
            let Some(full) = accepted(&namespace, &key) else {
                return Ok(());
            };
            let alone = KeyNames::new(&namespace);
            for names in [alone.on_node(home), alone] {
                let auxiliary_keys = [
                    text(&names.queue(&full)),
                    text(&names.shares(&full)),
                    text(&names.result(&full)),
                    names.fences(&full).into_owned(),
                    names.trial(Token::random(Nonce::new())),
                ];
                for auxiliary_key in auxiliary_keys {
                    let mut pairs = vec![("", auxiliary_key.as_str())];
                    let colons = auxiliary_key.match_indices(':');
                    pairs.extend(colons.map(|(at, _)| (&auxiliary_key[..at], &auxiliary_key[at + 1..])));
                    for (other, name) in pairs {
                        let locked = accepted(other, name);
                        prop_assert_eq!(locked, None, "{} of {} is {:?}", auxiliary_key, full, (other, name));
                    }
                }
            }
        }

        /// Fails if a brace in a namespace or a key puts the keys of one script into two slots.
        #[test]
        fn companions_share_the_slot(namespace in "[{}a:]{0,6}", key in "[{}a:é]{1,12}", home in 0..hash_slot::SLOTS) {
            let names = KeyNames::new(&namespace).on_node(home);
            let key = format!("{}{key}", names.prefix);
            let slot = hash_slot::of(&key);
            for auxiliary_key in [text(&names.queue(&key)), text(&names.shares(&key)), text(&names.result(&key)), names.fences(&key).into_owned()] {
                prop_assert_eq!(hash_slot::of(&auxiliary_key), slot, "{} of {}", auxiliary_key, key);
            }
            prop_assert_eq!(hash_slot::of(&names.trial(Token::random(Nonce::new()))), home);
        }
    }
}
