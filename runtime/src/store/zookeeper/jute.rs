//! ZooKeeper's encoding: numbers in big-endian order, and each text after its length.

use super::error::Error;

/// A frame under construction.
#[derive(Debug, Default)]
pub(super) struct Out(Vec<u8>);

impl Out {
    pub(super) fn int(mut self, number: i32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, number: i64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn flag(mut self, flag: bool) -> Self {
        self.0.push(u8::from(flag));
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(length(bytes.len()));
        self.0.extend(bytes);
        self
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(super) fn then(mut self, part: &Self) -> Self {
        self.0.extend(&part.0);
        self
    }

    /// Appends the length of the frame, and the frame.
    pub(super) fn frame_to(&self, frames: &mut Vec<u8>) {
        frames.extend(length(self.0.len()));
        frames.extend(&self.0);
    }
}

/// Encodes a length. Keys and owners are bounded, so no length is near 2³¹.
fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes()
}

/// The unread rest of a frame.
#[derive(Debug)]
pub(super) struct In<'a>(pub(super) &'a [u8]);

impl<'a> In<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Error::Garbled)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn int(&mut self) -> Result<i32, Error> {
        self.take().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<i64, Error> {
        self.take().map(i64::from_be_bytes)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Error> {
        self.take().map(|[flag]| flag != 0)
    }

    /// Reads a length, and then that many bytes. A length of -1 stands for no bytes.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = usize::try_from(self.int()?).unwrap_or(0);
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Error::Garbled)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        let text = String::from_utf8(self.bytes()?.to_vec());
        text.map_err(|_| Error::Garbled)
    }

    pub(super) fn texts(&mut self) -> Result<Vec<String>, Error> {
        let count = self.int()?;
        (0..count).map(|_| self.text()).collect()
    }

    pub(super) fn stat(&mut self) -> Result<Stat, Error> {
        let (czxid, _mzxid) = (self.long()?, self.long()?);
        let (ctime, _mtime) = (self.long()?, self.long()?);
        let _versions: [u8; 12] = self.take()?;
        let ephemeral_owner = self.long()?;
        // Skips the length of the data, the number of children, and the last change of the
        // children.
        let _rest: [u8; 16] = self.take()?;
        Ok(Stat {
            czxid,
            ctime,
            ephemeral_owner,
        })
    }
}

/// Metadata of a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// The transaction that created the znode.
    pub(super) czxid: i64,
    /// Creation time of the znode, in milliseconds.
    pub(super) ctime: i64,
    /// The session with which the znode ends. 0 if the znode is not ephemeral.
    pub(super) ephemeral_owner: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_can_be_read_back() {
        let written = Out::default().int(-7).long(1 << 40).flag(true);
        let written = written.text("ä").bytes(&[]).int(2).text("a").text("");
        let mut frame = Vec::new();
        written.frame_to(&mut frame);
        let mut read = In(&frame);
        assert_eq!(read.int(), Ok(i32::try_from(frame.len()).unwrap() - 4));
        assert_eq!((read.int(), read.long()), (Ok(-7), Ok(1 << 40)));
        assert_eq!((read.flag(), read.text()), (Ok(true), Ok("ä".to_owned())));
        assert_eq!(read.bytes(), Ok(&[][..]));
        assert_eq!(read.texts(), Ok(vec!["a".to_owned(), String::new()]));
        assert_eq!(read.int(), Err(Error::Garbled));
    }

    #[test]
    fn lengths_beyond_the_frame_are_refused() {
        for length in [1_i32, i32::MAX] {
            let frame = length.to_be_bytes();
            assert_eq!(In(&frame).bytes(), Err(Error::Garbled));
            assert_eq!(In(&frame).texts(), Err(Error::Garbled));
            assert_eq!(In(&frame).stat(), Err(Error::Garbled));
        }
        assert_eq!(In(&(-1_i32).to_be_bytes()).text(), Ok(String::new()));
    }
}
