//! The elements of a JSON list, one after the other, in constant memory: a day of an export may have hundreds of megabytes.

use std::io::{self, Read};

use serde_json::value::RawValue;

/// A longer element is no message: ten times what Slack takes, blocks and attachments included.
pub(crate) const MAX_ELEMENT_BYTES: usize = 4 * 1024 * 1024;

/// What is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// A file may begin with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An element.
#[derive(Debug)]
pub(crate) enum ArrayElement<'b> {
    /// It is JSON.
    Json(&'b RawValue),
    /// It is not, and why; the elements behind it can be read.
    Malformed(&'static str),
}

/// Why no more elements can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Break {
    /// The bytes are no list from here on.
    #[error("{0}")]
    Shape(&'static str),
    /// The bytes cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayState {
    Begin,
    /// Behind `[`.
    First,
    /// Behind a comma.
    Next,
    /// Behind `]`.
    Behind,
    End,
}

/// Where an element ends.
struct Extent {
    /// Its length in the buffer; `None` if it was too long to be kept.
    kept: Option<usize>,
    is_last: bool,
}

/// Reads the elements of a list.
pub(crate) struct Elements<R> {
    reader: R,
    buffer: Vec<u8>,
    /// What is behind it in the buffer was not handed out yet.
    begin: usize,
    place: ArrayState,
}

impl<R: Read> Elements<R> {
    /// The elements of the list that these bytes are.
    pub(crate) fn of(reader: R) -> Self {
        Self { reader, buffer: Vec::with_capacity(CHUNK_BYTES), begin: 0, place: ArrayState::Begin }
    }

    /// The next element; `None` at the end of the list, once all bytes are read. Nothing may follow a [`Break`].
    pub(crate) fn next(&mut self) -> Result<Option<ArrayElement<'_>>, Break> {
        if self.place == ArrayState::Begin {
            self.open()?;
        }
        if self.place == ArrayState::Behind {
            self.close()?;
        }
        if self.place == ArrayState::End {
            return Ok(None);
        }
        let is_first = self.place == ArrayState::First;
        let Some(byte) = self.skip_space()? else { return Err(Break::Shape("it ends in the middle")) };
        if byte == b']' && is_first {
            self.begin += 1;
            self.close()?;
            return Ok(None);
        }
        let Extent { kept, is_last } = self.extent()?;
        let (from, to) = (self.begin, self.begin + kept.unwrap_or(0));
        // The delimiter behind it.
        self.begin = to + 1;
        self.place = if is_last { ArrayState::Behind } else { ArrayState::Next };
        Ok(Some(element_of(kept.map(|_| &self.buffer[from..to]))))
    }

    fn open(&mut self) -> Result<(), Break> {
        while self.buffer.len() < BYTE_ORDER_MARK.len() && self.fill()? {}
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.begin = BYTE_ORDER_MARK.len();
        }
        match self.skip_space()? {
            Some(b'[') => {
                self.begin += 1;
                self.place = ArrayState::First;
                Ok(())
            }
            Some(_) => Err(Break::Shape("it is no list")),
            None => Err(Break::Shape("it is empty")),
        }
    }

    /// Reads what is behind the list: a damaged file shows only at its end.
    fn close(&mut self) -> Result<(), Break> {
        match self.skip_space()? {
            Some(_) => Err(Break::Shape("something follows the list")),
            None => {
                self.place = ArrayState::End;
                Ok(())
            }
        }
    }

    /// The next byte that is no space; `None` at the end.
    fn skip_space(&mut self) -> Result<Option<u8>, Break> {
        loop {
            let rest = &self.buffer[self.begin..];
            if let Some(at) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
                self.begin += at;
                return Ok(Some(self.buffer[self.begin]));
            }
            self.begin = self.buffer.len();
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Looks for the end of the element that begins here: the comma or the bracket outside of everything in it.
    fn extent(&mut self) -> Result<Extent, Break> {
        let (mut depth, mut in_text, mut escaped, mut too_long) = (0_usize, false, false, false);
        let mut at = self.begin;
        loop {
            while let Some(byte) = self.buffer.get(at).copied() {
                at += 1;
                if escaped {
                    escaped = false;
                } else if in_text {
                    in_text = byte != b'"';
                    escaped = byte == b'\\';
                } else {
                    match byte {
                        b'"' => in_text = true,
                        b'{' | b'[' => depth += 1,
                        b',' | b']' if depth == 0 => {
                            let kept = (!too_long).then(|| at - 1 - self.begin);
                            if too_long {
                                self.begin = at - 1;
                            }
                            if kept == Some(0) {
                                return Err(Break::Shape("an element is empty"));
                            }
                            return Ok(Extent { kept, is_last: byte == b']' });
                        }
                        b'}' | b']' if depth > 0 => depth -= 1,
                        b'}' => return Err(Break::Shape("a bracket is closed that was not opened")),
                        _ => {}
                    }
                }
            }
            if self.buffer.len() - self.begin > MAX_ELEMENT_BYTES {
                too_long = true;
            }
            if too_long {
                self.begin = self.buffer.len();
            }
            let begin = self.begin;
            if !self.fill()? {
                return Err(Break::Shape("it ends in the middle"));
            }
            at -= begin - self.begin;
        }
    }

    /// Reads more into the buffer, which then begins with what was not handed out; `false` at the end.
    fn fill(&mut self) -> Result<bool, Break> {
        self.buffer.drain(..self.begin);
        self.begin = 0;
        let had = self.buffer.len();
        self.buffer.resize(had + CHUNK_BYTES, 0);
        let read = loop {
            match self.reader.read(&mut self.buffer[had..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(had + read.as_ref().copied().unwrap_or(0));
        Ok(read? > 0)
    }
}

fn element_of(bytes: Option<&[u8]>) -> ArrayElement<'_> {
    let Some(bytes) = bytes else { return ArrayElement::Malformed("it is longer than any message") };
    let Ok(text) = std::str::from_utf8(bytes) else { return ArrayElement::Malformed("it is not UTF-8") };
    serde_json::from_str(text).map_or(ArrayElement::Malformed("it is no JSON"), ArrayElement::Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time.
    struct Slow<'b> {
        bytes: &'b [u8],
        at_once: usize,
    }

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.at_once.min(self.bytes.len()).min(into.len());
            let (now, later) = self.bytes.split_at(count);
            into[..count].copy_from_slice(now);
            self.bytes = later;
            Ok(count)
        }
    }

    /// The elements, and why there were no more.
    fn elements(bytes: &[u8], at_once: usize) -> (Vec<String>, Option<String>) {
        let mut elements = Elements::of(Slow { bytes, at_once });
        let mut found = Vec::new();
        loop {
            match elements.next() {
                Ok(Some(ArrayElement::Json(raw))) => found.push(raw.get().to_owned()),
                Ok(Some(ArrayElement::Malformed(why))) => found.push(format!("! {why}")),
                Ok(None) => return (found, None),
                Err(broken) => return (found, Some(broken.to_string())),
            }
        }
    }

    #[test]
    fn elements_come_one_by_one_however_the_bytes_arrive() {
        let object = r#"{"a":"]},\"[\\","b":[1,{"c":[]}]}"#;
        let list = format!("\u{feff} [ {object} ,\n null,7 , \"x,]\" , [] ] \n");
        for at_once in [1, 2, 3, 7, 1000] {
            let (found, broken) = elements(list.as_bytes(), at_once);
            assert_eq!(found, [object, "null", "7", "\"x,]\"", "[]"], "{at_once}");
            assert_eq!(broken, None);
            assert_eq!(elements(b" [ ] ", at_once), (Vec::new(), None));
        }
    }

    #[test]
    fn what_is_before_a_break_is_read_and_the_break_says_why() {
        for (list, found, why) in [
            (&b""[..], &[][..], "empty"),
            (b"{}", &[], "no list"),
            (b"null", &[], "no list"),
            (b"[", &[], "ends"),
            (b"[1", &[], "ends"),
            (b"[1,", &["1"], "ends"),
            (b"[1,{\"a\":\"b", &["1"], "ends"),
            (b"[1,]", &["1"], "empty"),
            (b"[,1]", &[], "empty"),
            (b"[1}", &[], "closed"),
            (b"[1,2] 3", &["1", "2"], "follows"),
        ] {
            let (read, broken) = elements(list, 3);
            let broken = broken.unwrap_or_default();
            assert_eq!(read, found, "{}", String::from_utf8_lossy(list));
            assert!(broken.contains(why), "{}: {broken}", String::from_utf8_lossy(list));
        }
    }

    #[test]
    fn an_element_that_is_no_json_takes_no_other_with_it() {
        let (found, broken) = elements(b"[1, {a}, \"\xff\", {\"a\":[}], tru, 2]", 5);
        assert_eq!(
            found,
            ["1", "! it is no JSON", "! it is not UTF-8", "! it is no JSON", "! it is no JSON", "2"]
        );
        assert_eq!(broken, None);
    }

    #[test]
    fn a_huge_element_and_deep_nesting_cost_no_memory_and_no_stack() {
        let mut list = b"[\"".to_vec();
        list.extend(std::iter::repeat_n(b'x', 3 * MAX_ELEMENT_BYTES));
        list.extend_from_slice(b"\",1,");
        list.extend(std::iter::repeat_n(b'[', 1_000_000));
        list.extend(std::iter::repeat_n(b']', 1_000_000));
        list.extend_from_slice(b",2]");
        let mut elements = Elements::of(&list[..]);
        assert!(matches!(elements.next(), Ok(Some(ArrayElement::Malformed(_)))));
        assert!(elements.buffer.capacity() < 3 * MAX_ELEMENT_BYTES, "{}", elements.buffer.capacity());
        assert!(matches!(elements.next(), Ok(Some(ArrayElement::Json(_)))));
        assert!(matches!(elements.next(), Ok(Some(_))));
        assert!(matches!(elements.next(), Ok(Some(ArrayElement::Json(raw))) if raw.get() == "2"));
        assert!(matches!(elements.next(), Ok(None)));
    }
}
